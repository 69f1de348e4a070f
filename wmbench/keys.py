"""Secret keys, and every number that is drawn from them.

A key can be used but not seen: printing, pickling, copying or dumping it shows at most its id. Worker processes are
handed a `KeySource`, never a key.

All numbers come from HMAC-SHA256(key, fields), where `fields` is the length-prefixed list (scheme, version, purpose,
unit, channel, counter). Numbers that must be independent need different fields, usually another purpose: `bits` and
`uniforms` at one address read the same words. They are computed on the CPU and are the same bytes on every machine;
only `gaussians` may differ in the last bit, where the C library's logarithm or fused multiply-adds do.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import os
import re
import secrets
import stat
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, NoReturn, final

import numpy as np
import numpy.typing as npt

from wmbench.disk import sync_folder
from wmbench.errors import ConfigError, KeyFileError
from wmbench.redaction import HIDDEN, shown_name, shown_path
from wmbench.siphash import SipHash, Words

DEFAULT_VARIABLE = "WMBENCH_KEY"
SECRET_BYTES = 32
Integers = int | npt.NDArray[np.integer[Any]]
Floats = npt.NDArray[np.float64]
_ADDRESS = struct.Struct(">IqIqIq")  # unit, channel and counter, each behind its length
_CHUNK = 5 << 13  # messages hashed at once: few enough for the cache, and many enough for numpy
_NEW_KEY = "make a key with `wmbench key new`"


@final
class SecretKey:
    """32 or more secret bytes. `id`, 12 hexadecimal digits, names the key and says nothing about it.

    A traceback may print local variables. So the secret lives only where its repr is harmless (a memoryview and hash
    states), and no variable of a function that may raise holds it as str or bytes.
    """

    __slots__ = ("_inner", "_outer", "_secret", "id")

    def __init__(self, secret: memoryview, where: str | None = None) -> None:
        if secret.nbytes < SECRET_BYTES:
            why = f"a key has {SECRET_BYTES} or more bytes, written as {2 * SECRET_BYTES} or more hexadecimal digits"
            raise KeyFileError("there is no usable key", where=where, why=why, hint=_NEW_KEY)
        self._secret = secret
        # HMAC with the padded key absorbed once: three times as fast as hmac.digest for every block.
        block = secret if secret.nbytes <= 64 else memoryview(hashlib.sha256(secret).digest())
        self._inner = hashlib.sha256(bytes(b ^ 0x36 for b in block).ljust(64, b"\x36"))
        self._outer = hashlib.sha256(bytes(b ^ 0x5C for b in block).ljust(64, b"\x5c"))
        self.id: Final = _hmac(self._inner, self._outer, b"wmbench key id").hex()[:12]

    @classmethod
    def generate(cls) -> SecretKey:
        return cls(memoryview(secrets.token_bytes(SECRET_BYTES)))

    @classmethod
    def from_hex(cls, text: str) -> SecretKey:
        secret = _secret_from_hex(text)
        del text  # a traceback would print it
        return cls(secret)

    @classmethod
    def from_env(cls, name: str = DEFAULT_VARIABLE) -> SecretKey:
        where = f"environment variable {shown_name(name)}" + ("" if name in os.environ else ", which is not set")
        return cls(_secret_from_hex(os.environ.get(name, "")), where)

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> SecretKey:
        where = os.fspath(path)
        try:
            with Path(path).open("rb") as file:
                mode = os.fstat(file.fileno()).st_mode  # of the open file: its name may be given to another one
                secret = _secret_from_hex(file.read(1 << 16).decode("ascii", "replace"))
        except OSError as error:
            where = shown_path(Path(path))
            cause = None if where == HIDDEN else error  # it names the file
            raise KeyFileError("the key cannot be read", where=where, why=str(error.strerror), hint=_NEW_KEY) from cause
        key = cls(secret, where)  # what is no key need not be private
        if os.name == "posix" and mode & 0o077:
            why = f"its mode is {stat.S_IMODE(mode):04o}, and who reads the key can forge the watermark"
            raise KeyFileError("the key file is not private", where=where, why=why, hint=f"chmod 600 {where}")
        return key

    def write(self, path: str | os.PathLike[str]) -> None:
        """Create a file that only its owner can read; an existing file is never overwritten."""
        target = Path(path)
        try:
            descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                with os.fdopen(descriptor, "w") as file:
                    file.write(self._secret.hex() + "\n")
                    file.flush()
                    os.fsync(file.fileno())
                sync_folder(target.parent)  # so that the new name survives a power failure
            except OSError:
                target.unlink(missing_ok=True)  # half a key is worse than none
                raise
        except OSError as error:
            exists = isinstance(error, FileExistsError)
            hint = "name another file" if exists else "name a file in a folder that you can write to"
            why = "the file exists, and a key is never overwritten" if exists else error.strerror
            raise KeyFileError("the key cannot be saved", where=os.fspath(path), why=why, hint=hint) from error

    def derive(self, label: str) -> SecretKey:
        """An independent key; a family of keys is one key and a list of labels."""
        return SecretKey(memoryview(_hmac(self._inner, self._outer, _fields("derive", label))))

    def stream(self, scheme: str, version: int, purpose: str) -> KeyStream:
        return KeyStream(self, scheme, version, purpose)

    def token_prf(self, scheme: str, version: int, purpose: str) -> TokenPrf:
        return TokenPrf(self, scheme, version, purpose)

    def __repr__(self) -> str:
        return f"SecretKey(id={self.id})"

    def __format__(self, spec: str) -> str:
        return format(repr(self), spec)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SecretKey) and hmac.compare_digest(self._secret, other._secret)

    def __hash__(self) -> int:
        return hash(self.id)

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError(f"{self!r} cannot be pickled or copied; pass a wmbench.keys.KeySource and load it there")


@dataclass(frozen=True, slots=True)
class KeySource:
    """Where a key is to be found. Plain data: may be pickled, logged and written into a run."""

    kind: Literal["file", "env"]
    name: str
    """Path of the key file, or name of the environment variable."""

    def __post_init__(self) -> None:
        if re.fullmatch(r"\s*[0-9a-fA-F]{64,}\s*", self.name):
            hint = "save the key in a file of mode 0600 and name that file; a command line is public"
            raise ConfigError("this is a key, not the name of a file or variable", hint=hint)
        if self.kind == "env" and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", self.name):
            why = "what was given is not shown, in case it is the key itself"
            raise ConfigError(
                "this is not the name of an environment variable", why=why, hint="for instance env:MY_KEY"
            )

    def load(self) -> SecretKey:
        return SecretKey.from_file(self.name) if self.kind == "file" else SecretKey.from_env(self.name)


@final
class KeyStream:
    """The numbers of one scheme, version and purpose, addressed by unit and channel.

    `unit` and `channel` broadcast; each pair has n numbers of its own, in the last axis, and a larger n only appends.
    """

    __slots__ = ("_inner", "_outer")

    def __init__(self, key: SecretKey, scheme: str, version: int, purpose: str) -> None:
        self._inner, self._outer = key._inner.copy(), key._outer
        self._inner.update(_fields(scheme, version, purpose))

    def _blocks(self, unit: Integers, channel: Integers, count: int) -> npt.NDArray[np.uint8]:
        units, channels = np.broadcast_arrays(_integer_array(unit), _integer_array(channel))
        digests = b"".join(
            _hmac(self._inner, self._outer, _ADDRESS.pack(8, u, 8, c, 8, counter))
            for u, c in zip(units.ravel().tolist(), channels.ravel().tolist(), strict=True)
            for counter in range(count)
        )
        return np.frombuffer(digests, np.uint8).reshape(*units.shape, count * 32)

    def words(self, unit: Integers, channel: Integers, n: int) -> Words:
        """64-bit words, four from each HMAC, most significant byte first."""
        return self._blocks(unit, channel, -(-n // 4)).view(">u8")[..., :n].astype(np.uint64)

    def bits(self, unit: Integers, channel: Integers, n: int) -> npt.NDArray[np.uint8]:
        """Fair bits, 256 from each HMAC, most significant bit first."""
        return np.unpackbits(self._blocks(unit, channel, -(-n // 256)), axis=-1)[..., :n]

    def uniforms(self, unit: Integers, channel: Integers, n: int) -> Floats:
        """Multiples of 2^-53 in [0, 1)."""
        return _unit_interval(self.words(unit, channel, n))

    def gaussians(self, unit: Integers, channel: Integers, n: int) -> Floats:
        """Standard normal numbers: quantiles at the midpoints of 2^52 cells, so that |x| < 8.3."""
        from scipy.special import ndtri

        midpoints = ((self.words(unit, channel, n) >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
        return np.asarray(ndtri(midpoints), np.float64)

    def integers(self, unit: Integers, channel: Integers, n: int, bound: int) -> npt.NDArray[np.int64]:
        """Integers in [0, bound), for bound <= 2^32: then no value is favoured by more than one part in 2^32."""
        if not 0 < bound <= 1 << 32:
            raise ValueError(f"bound must be in 1..2^32, not {bound}")
        return (self.words(unit, channel, n) % np.uint64(bound)).astype(np.int64)

    def permutation(self, unit: Integers, channel: Integers, n: int) -> npt.NDArray[np.int64]:
        """A permutation of 0..n-1: the order of n words. Equal words, of chance n^2 / 2^65, keep their order."""
        return np.argsort(self.words(unit, channel, n), axis=-1, kind="stable")


@final
class TokenPrf:
    """A keyed function from tuples of integers to 64 bits, for whole arrays: HMAC would take minutes for a vocabulary.

    It is SipHash-2-4, a pseudorandom function for short messages, over the tuple's 64-bit words; its 128-bit subkey is
    HMAC-SHA256 of the secret key. Arguments broadcast: `prf(contexts[:, None], vocabulary)` is a matrix.
    """

    __slots__ = ("_subkey",)

    def __init__(self, key: SecretKey, scheme: str, version: int, purpose: str) -> None:
        fields = _fields("token prf", scheme, version, purpose)
        self._subkey = memoryview(_hmac(key._inner, key._outer, fields)[:16])

    def __call__(self, *tokens: Integers) -> Words:
        words = [_integer_array(token).astype(np.uint64) for token in tokens]
        shape = np.broadcast_shapes(*(word.shape for word in words))
        aligned = [word.reshape((1,) * (len(shape) - word.ndim) + word.shape) for word in words]
        return self._digest(aligned, shape)

    def _digest(self, words: list[Words], shape: tuple[int, ...]) -> Words:
        """Digests [shape] of words whose axes are aligned with it, in parts of the first axis that fit a chunk."""
        if math.prod(shape) <= _CHUNK:
            return SipHash(self._subkey).digest(words).reshape(shape)
        digests, each = np.empty(shape, np.uint64), math.prod(shape[1:])
        step = -(-shape[0] // -(-math.prod(shape) // _CHUNK))  # parts of equal size
        for at in range(0, shape[0], step):
            part = [word if len(word) == 1 else word[at : at + step] for word in words]
            if each > _CHUNK:
                digests[at] = self._digest([word[0] for word in part], shape[1:])
            else:
                digests[at : at + step] = SipHash(self._subkey).digest(part)
        return digests

    def uniforms(self, *tokens: Integers) -> Floats:
        """Multiples of 2^-53 in [0, 1)."""
        return _unit_interval(self(*tokens))


def _hmac(inner: hashlib._Hash, outer: hashlib._Hash, message: bytes) -> bytes:
    inner, outer = inner.copy(), outer.copy()
    inner.update(message)
    outer.update(inner.digest())
    return outer.digest()


def _unit_interval(words: Words) -> Floats:
    return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _fields(*values: str | int) -> bytes:
    """Each value behind its length, so that no two lists of values share an encoding."""
    encoded = (v.encode() if isinstance(v, str) else v.to_bytes(8, "big", signed=True) for v in values)
    return b"".join(len(part).to_bytes(4, "big") + part for part in encoded)


def _integer_array(values: Integers) -> npt.NDArray[np.integer[Any]]:
    array = np.asarray(values)
    if array.dtype.kind not in "iu":
        raise TypeError(f"expected integers, not {array.dtype}")
    return array


def _secret_from_hex(text: str) -> memoryview:
    """Empty when it is not hexadecimal: an exception from here would carry `text` in its traceback."""
    try:
        return memoryview(bytes.fromhex(text.strip()))
    except ValueError:
        return memoryview(b"")
