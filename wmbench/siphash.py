"""SipHash-2-4 of many short messages at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]


class SipHash:
    """SipHash-2-4 of messages that share a subkey. Its lanes are attributes, because a traceback may print local
    variables.

    The words of the messages broadcast. A word that many messages begin with is absorbed once for all of them: the
    lanes grow only when a word needs it.
    """

    __slots__ = ("_lanes",)

    def __init__(self, subkey: memoryview) -> None:
        constants = np.frombuffer(b"uespemosmodnarodarenegylsetybdet", "<u8").astype(np.uint64)
        lanes = constants ^ np.tile(np.frombuffer(subkey, "<u8"), 2)
        self._lanes: list[Words] = [*lanes[:, None], np.empty(1, np.uint64)]  # last: scratch

    def digest(self, words: Sequence[Words]) -> Words:
        for word in (*words, np.array((8 * len(words) & 0xFF) << 56, np.uint64)):
            self._absorb(word)
        self._lanes[2] ^= np.uint64(0xFF)
        self._mix(rounds=4)
        return self._lanes[0] ^ self._lanes[1] ^ self._lanes[2] ^ self._lanes[3]

    def _absorb(self, word: Words) -> None:
        shape = np.broadcast_shapes(self._lanes[0].shape, word.shape)
        if shape != self._lanes[0].shape:
            self._lanes = [np.array(np.broadcast_to(lane, shape), order="C") for lane in self._lanes]
        self._lanes[3] ^= word
        self._mix(rounds=2)
        self._lanes[0] ^= word

    def _mix(self, rounds: int) -> None:
        for target, lane, bits in ((0, 1, 13), (2, 3, 16), (0, 3, 21), (2, 1, 17)) * rounds:
            self._lanes[target] += self._lanes[lane]
            self._rotate(lane, bits)
            self._lanes[lane] ^= self._lanes[target]
            if lane == 1:
                self._rotate(target, 32)

    def _rotate(self, lane: int, bits: int) -> None:
        np.right_shift(self._lanes[lane], np.uint64(64 - bits), out=self._lanes[4])
        self._lanes[lane] <<= np.uint64(bits)
        self._lanes[lane] |= self._lanes[4]
