"""The parity rule: token v fits index i when its bit f(v) equals i mod 2."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from wmbench.keys import SecretKey
from wmbench.prf import Prf, require_key
from wmbench.types import AnyArray, IntArray

Bits = npt.NDArray[np.int8]


def token_bits(prf: Prf, key: SecretKey | None, size: int) -> Bits:
    """f(v) for every id of the tokenizer [size].

    Under `hmac` the ids with the smaller half of pseudorandom words have bit 1: balanced exactly, and a function of the
    whole key. (The published key mode puts the same key bit on both sides of the comparison, where it cancels.)
    """
    ids = np.arange(size)
    if prf == "official":
        return (ids % 2).astype(np.int8)
    words = require_key(key, "dgmark").token_prf("dgmark", 1, "parity")(ids)
    bits = np.zeros(size, dtype=np.int8)
    bits[np.argsort(words)[: size // 2]] = 1
    return bits


def fits(bits: Bits, tokens: AnyArray, columns: IntArray) -> npt.NDArray[np.bool_]:
    """Whether tokens have the parity of their canvas columns; indices count from 1, so column 0 is odd."""
    fitting: npt.NDArray[np.bool_] = bits[tokens] == (columns + 1) % 2
    return fitting
