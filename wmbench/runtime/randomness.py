"""Counter-based randomness: every draw is a pure function of (seed, sample id, step, lane, purpose, index).

Lanes tell apart what is drawn side by side in one step. Nothing is carried from one draw to the next, so batching,
resuming, de-duplication and caching cannot move a draw. The generator is Philox-4x64-10 as shipped with numpy; its raw
64-bit words are part of numpy's stability promise.
"""

from __future__ import annotations

import hashlib
import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt


@lru_cache(maxsize=1024)
def _purpose_code(purpose: str) -> int:
    return int.from_bytes(hashlib.blake2b(purpose.encode(), digest_size=8).digest(), "little")


class SampleRandom:
    """All randomness of one sample."""

    __slots__ = ("_generator", "_identity", "_state")

    def __init__(self, seed: int, sample_id: str) -> None:
        self._identity = f"{seed}\x00{sample_id}"
        digest = hashlib.blake2b(self._identity.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        self._generator = np.random.Philox(key=int.from_bytes(digest, "little"))
        # Setting the counter of one generator is five times faster than building a generator per draw.
        self._state = self._generator.state

    def words(self, purpose: str, step: int, count: int, lane: int = 0) -> npt.NDArray[np.uint64]:
        """`count` uniform 64-bit words. Counter word 0 runs with the index, so streams never overlap."""
        self._state["state"]["counter"][:] = (0, lane, step, _purpose_code(purpose))
        self._generator.state = self._state
        return self._generator.random_raw(count)

    def uniforms(self, purpose: str, step: int, shape: int | tuple[int, ...], lane: int = 0) -> npt.NDArray[np.float64]:
        """Uniforms in [0, 1) with 53 random bits."""
        shape = (shape,) if isinstance(shape, int) else shape
        words = self.words(purpose, step, math.prod(shape), lane)
        return ((words >> np.uint64(11)).astype(np.float64) * 2.0**-53).reshape(shape)

    def fork(self, step: int, lane: int) -> SampleRandom:
        """An independent stream for one continuation that leaves the sample at a step."""
        return SampleRandom(0, f"{self._identity}\x00fork {step} {lane}")
