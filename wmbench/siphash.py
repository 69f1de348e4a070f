"""SipHash-2-4 of many short messages at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]
Turn = tuple[Words, Words]


def _turn(bits: int) -> Turn:
    """The shifts of a rotation to the left. Arrays, because a ufunc takes longer over numbers."""
    return np.array(bits, np.uint64), np.array(64 - bits, np.uint64)


_QUARTERS: list[tuple[int, int, Turn]] = [(0, 1, _turn(13)), (2, 3, _turn(16)), (0, 3, _turn(21)), (2, 1, _turn(17))]
"""Of a round: a lane, the lane that is added to it, and by how much that one is turned."""
_HALF_TURN = _turn(32)


class SipHash:
    """SipHash-2-4 of messages that share a subkey. Its lanes are attributes, because a traceback may print local
    variables.

    The words of the messages broadcast. A word that many messages begin with is absorbed once for all of them: the
    lanes grow only when a word needs it.
    """

    __slots__ = ("_lanes", "_scratch")

    def __init__(self, subkey: memoryview) -> None:
        constants = np.frombuffer(b"uespemosmodnarodarenegylsetybdet", "<u8").astype(np.uint64)
        lanes = constants ^ np.tile(np.frombuffer(subkey, "<u8"), 2)
        self._lanes: list[Words] = list(lanes[:, None])
        self._scratch: Words = np.empty(1, np.uint64)

    def digest(self, words: Sequence[Words]) -> Words:
        for word in (*words, np.array((8 * len(words) & 0xFF) << 56, np.uint64)):
            self._grow(np.broadcast_shapes(self._scratch.shape, word.shape))
            self._lanes[3] ^= word
            self._mix(rounds=2)
            self._lanes[0] ^= word
        self._lanes[2] ^= np.uint64(0xFF)
        self._mix(rounds=4)
        for lane in self._lanes[1:]:
            self._lanes[0] ^= lane
        return self._lanes[0]

    def _grow(self, shape: tuple[int, ...]) -> None:
        if shape != self._scratch.shape:
            self._lanes = [np.array(np.broadcast_to(lane, shape), order="C") for lane in self._lanes]
            self._scratch = np.empty(shape, np.uint64)

    def _mix(self, rounds: int) -> None:
        for target, lane, turn in _QUARTERS * rounds:
            np.add(self._lanes[target], self._lanes[lane], self._lanes[target])
            self._rotate(lane, turn)
            np.bitwise_xor(self._lanes[lane], self._lanes[target], self._lanes[lane])
            if lane == 1:
                self._rotate(target, _HALF_TURN)

    def _rotate(self, lane: int, turn: Turn) -> None:
        left, right = turn
        np.right_shift(self._lanes[lane], right, self._scratch)
        np.left_shift(self._lanes[lane], left, self._lanes[lane])
        np.bitwise_or(self._lanes[lane], self._scratch, self._lanes[lane])
