"""Numbers drawn from a key: against HMAC-SHA256 and SipHash written down independently, and against their laws."""

from __future__ import annotations

import hashlib
import hmac

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from wmbench.keys import KeyStream, SecretKey, TokenPrf

SECRET = bytes(range(100, 140))


@pytest.fixture(scope="module")
def key() -> SecretKey:
    return SecretKey.from_hex(SECRET.hex())


@pytest.fixture(scope="module")
def stream(key: SecretKey) -> KeyStream:
    return key.stream("denmark", 1, "test")


def field(value: str | int) -> bytes:
    data = value.encode() if isinstance(value, str) else value.to_bytes(8, "big", signed=True)
    return len(data).to_bytes(4, "big") + data


def block(secret: bytes, *fields: str | int) -> bytes:
    return hmac.new(secret, b"".join(field(f) for f in fields), hashlib.sha256).digest()


def expected_words(secret: bytes, unit: int, channel: int, n: int) -> list[int]:
    data = b"".join(block(secret, "denmark", 1, "test", unit, channel, counter) for counter in range(n // 4 + 1))
    return [int.from_bytes(data[8 * i : 8 * i + 8], "big") for i in range(n)]


# --- HMAC --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [32, 63, 64, 65, 200])
def test_ids_words_and_derived_keys_are_hmac(size: int) -> None:
    secret = bytes(i * 7 % 256 for i in range(size))
    key = SecretKey.from_hex(secret.hex())
    assert key.id == hmac.new(secret, b"wmbench key id", hashlib.sha256).hexdigest()[:12]
    assert key.stream("denmark", 1, "test").words(3, -2, 9).tolist() == expected_words(secret, 3, -2, 9)
    assert key.derive("family 7") == SecretKey.from_hex(block(secret, "derive", "family 7").hex())


def test_values_are_frozen() -> None:
    """A change here makes every watermark that users have generated undetectable."""
    key = SecretKey.from_hex(bytes(range(32)).hex())
    stream = key.stream("denmark", 1, "frozen")
    assert key.id == "8b00e13ea473"
    assert stream.words(0, 1, 2).tolist() == [9009778195996666328, 14389497745775581157]
    assert stream.gaussians(0, 1, 2).tolist() == pytest.approx([-0.029028187898112207, 0.7723831540416289], rel=1e-14)
    assert key.token_prf("kgw", 1, "green")(np.array([5, 6]), 7).tolist() == [3203102072929839942, 7037050674562444436]


def test_bits_uniforms_and_integers_come_from_the_words(stream: KeyStream) -> None:
    words = expected_words(SECRET, 5, 2, 10)
    bits = "".join(f"{word:064b}" for word in words)
    assert "".join(map(str, stream.bits(5, 2, 600))) == bits[:600]
    assert stream.uniforms(5, 2, 10).tolist() == [(word >> 11) / 2**53 for word in words]
    assert stream.integers(5, 2, 10, bound=1000).tolist() == [word % 1000 for word in words]
    quantiles = special.ndtri([((word >> 12) + 0.5) / 2**52 for word in words])
    assert stream.gaussians(5, 2, 10).tolist() == pytest.approx(quantiles.tolist(), rel=1e-15)
    assert stream.permutation(5, 2, 10).tolist() == sorted(range(10), key=lambda i: words[i])


def test_types(stream: KeyStream) -> None:
    assert stream.bits(0, 0, 3).dtype == np.uint8
    assert stream.words(0, 0, 3).dtype == np.uint64
    assert stream.words(0, 0, 3).dtype.isnative
    assert stream.uniforms(0, 0, 3).dtype == stream.gaussians(0, 0, 3).dtype == np.float64
    assert stream.integers(0, 0, 3, 9).dtype == stream.permutation(0, 0, 3).dtype == np.int64


ADDRESSES = st.integers(-(2**63), 2**63 - 1)


@given(unit=ADDRESSES, channel=ADDRESSES, n=st.integers(0, 30), more=st.integers(0, 30))
def test_a_larger_n_only_appends(unit: int, channel: int, n: int, more: int) -> None:
    stream = SecretKey.from_hex(SECRET.hex()).stream("denmark", 1, "test")
    assert np.array_equal(stream.words(unit, channel, n + more)[:n], stream.words(unit, channel, n))
    assert np.array_equal(stream.bits(unit, channel, 20 * n + more)[: 20 * n], stream.bits(unit, channel, 20 * n))


def test_many_addresses_at_once_equal_one_at_a_time(stream: KeyStream) -> None:
    units, channels = np.array([[0], [7], [-1]]), np.array([0, 3])
    for name in ("words", "bits", "uniforms", "gaussians", "permutation"):
        method = getattr(stream, name)
        together = method(units, channels, 11)
        assert together.shape == (3, 2, 11)
        for i, unit in enumerate(units.ravel().tolist()):
            for j, channel in enumerate(channels.tolist()):
                assert np.array_equal(together[i, j], method(unit, channel, 11))
    assert stream.integers(units, channels, 11, 5).shape == (3, 2, 11)


def test_every_field_separates(key: SecretKey) -> None:
    draws = [
        key.stream("denmark", 1, "test").words(0, 0, 4),
        key.stream("denmark", 2, "test").words(0, 0, 4),
        key.stream("denmark2", 1, "test").words(0, 0, 4),
        key.stream("denmark", 1, "test2").words(0, 0, 4),
        key.stream("denmarkt", 1, "est").words(0, 0, 4),
        key.stream("denmark", 1, "test").words(1, 0, 4),
        key.stream("denmark", 1, "test").words(0, 1, 4),
        key.derive("a").stream("denmark", 1, "test").words(0, 0, 4),
        key.derive("b").stream("denmark", 1, "test").words(0, 0, 4),
        key.stream("denmark", 1, "test").words(0, 0, 8)[4:],
    ]
    assert len({words.tobytes() for words in draws}) == len(draws)


@pytest.mark.parametrize("address", [1.0, "0", np.array([0.5]), None])
def test_addresses_must_be_integers(stream: KeyStream, address: object) -> None:
    with pytest.raises(TypeError, match="expected integers"):
        stream.bits(address, 0, 8)  # type: ignore[arg-type]


@pytest.mark.parametrize("bound", [0, -1, 2**32 + 1])
def test_bounds_of_integers(stream: KeyStream, bound: int) -> None:
    with pytest.raises(ValueError, match="bound"):
        stream.integers(0, 0, 1, bound)


# --- laws, at a fixed key: each p-value below is one number, not a lottery ---------------------------------------


def test_bits_are_fair_and_uncorrelated(stream: KeyStream) -> None:
    bits = stream.bits(np.arange(64)[:, None], np.arange(4), 512).astype(np.int64)
    n = bits.size
    assert abs(bits.sum() - n / 2) < 3 * np.sqrt(n / 4)
    assert abs(bits.sum(axis=(0, 1)) - 128).max() < 5 * np.sqrt(64)  # each position, over 256 addresses
    signs = 2 * bits.reshape(256, 512) - 1
    between = signs @ signs.T
    np.fill_diagonal(between, 0)
    assert abs(between).max() < 6 * np.sqrt(512)


def test_uniforms_are_uniform(stream: KeyStream) -> None:
    u = stream.uniforms(np.arange(10), 1, 4000).ravel()
    assert u.min() >= 0.0
    assert u.max() < 1.0
    assert stats.kstest(u, "uniform").pvalue > 0.01
    assert abs(np.corrcoef(u[:-1], u[1:])[0, 1]) < 0.015
    assert np.all(u * 2**53 == np.floor(u * 2**53))


def test_gaussians_are_standard_normal(stream: KeyStream) -> None:
    x = stream.gaussians(np.arange(10), 1, 4000).ravel()
    assert stats.kstest(x, "norm").pvalue > 0.01
    assert abs(x.mean()) < 0.015
    assert x.var() == pytest.approx(1.0, abs=0.02)
    assert stats.kurtosis(x) == pytest.approx(0.0, abs=0.08)
    directions = stream.gaussians(np.arange(20)[:, None], np.arange(2), 768).reshape(40, 768)
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    cosines = directions @ directions.T - np.eye(40)
    assert abs(cosines).max() < 5 / np.sqrt(768)


def test_extreme_words_give_finite_gaussians(stream: KeyStream, monkeypatch: pytest.MonkeyPatch) -> None:
    extremes = np.array([0, 2**64 - 1], np.uint64)
    monkeypatch.setattr(KeyStream, "words", lambda *_: extremes)
    low, high = stream.gaussians(0, 0, 2)
    assert -8.3 < low < -8.1
    assert 8.1 < high < 8.3
    assert low == pytest.approx(-high, rel=1e-3)
    assert stream.uniforms(0, 0, 2).max() < 1.0


def test_permutations_are_uniform(stream: KeyStream) -> None:
    permutations = stream.permutation(np.arange(12_000), 0, 4)
    assert np.array_equal(np.sort(permutations, axis=1), np.tile(np.arange(4), (12_000, 1)))
    codes = permutations @ np.array([64, 16, 4, 1])
    _, counts = np.unique(codes, return_counts=True)
    assert len(counts) == 24
    assert stats.chisquare(counts).pvalue > 0.01


def test_integers_are_uniform(stream: KeyStream) -> None:
    counts = np.bincount(stream.integers(np.arange(5), 0, 4000, bound=7).ravel(), minlength=7)
    assert stats.chisquare(counts).pvalue > 0.01


# --- the token function ------------------------------------------------------------------------------------------


def siphash_2_4(subkey: bytes, message: bytes) -> int:
    """Aumasson and Bernstein's definition, one message at a time, in Python integers."""
    mask = 2**64 - 1
    k0, k1 = (int.from_bytes(subkey[i : i + 8], "little") for i in (0, 8))
    v = [k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D, k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573]

    def rotate(x: int, bits: int) -> int:
        return (x << bits | x >> (64 - bits)) & mask

    def rounds(count: int) -> None:
        for _ in range(count):
            v[0] = (v[0] + v[1]) & mask
            v[1] = rotate(v[1], 13) ^ v[0]
            v[0] = rotate(v[0], 32)
            v[2] = (v[2] + v[3]) & mask
            v[3] = rotate(v[3], 16) ^ v[2]
            v[0] = (v[0] + v[3]) & mask
            v[3] = rotate(v[3], 21) ^ v[0]
            v[2] = (v[2] + v[1]) & mask
            v[1] = rotate(v[1], 17) ^ v[2]
            v[2] = rotate(v[2], 32)

    padded = message + bytes(-(len(message) + 1) % 8) + bytes([len(message) % 256])
    for i in range(0, len(padded), 8):
        word = int.from_bytes(padded[i : i + 8], "little")
        v[3] ^= word
        rounds(2)
        v[0] ^= word
    v[2] ^= 0xFF
    rounds(4)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def test_the_reference_matches_the_published_vectors() -> None:
    subkey = bytes(range(16))
    assert siphash_2_4(subkey, bytes(range(15))) == 0xA129CA6149BE45E5  # appendix A of the SipHash paper
    assert siphash_2_4(subkey, bytes(range(8))) == 0x93F5F5799A932462  # vectors.h of the reference code


def expected_prf(purpose: str, *tokens: int) -> int:
    subkey = block(SECRET, "token prf", "kgw", 1, purpose)[:16]
    return siphash_2_4(subkey, b"".join((token % 2**64).to_bytes(8, "little") for token in tokens))


@pytest.fixture(scope="module")
def prf(key: SecretKey) -> TokenPrf:
    return key.token_prf("kgw", 1, "green")


def test_the_token_function_is_siphash_under_an_hmac_subkey(prf: TokenPrf) -> None:
    contexts, vocabulary = np.array([0, 9, 126_463]), np.arange(5)
    matrix = prf(contexts[:, None], vocabulary)
    assert matrix.dtype == np.uint64
    assert matrix.tolist() == [[expected_prf("green", int(c), int(v)) for v in vocabulary] for c in contexts]
    assert int(prf(-1, 2**63 - 1, 3)) == expected_prf("green", -1, 2**63 - 1, 3)
    assert prf(np.array([2**64 - 1], np.uint64), np.array([4], np.int32)).tolist() == [expected_prf("green", -1, 4)]
    assert int(prf(7)) == expected_prf("green", 7)
    assert prf(np.empty((0, 3), np.int64), 1).shape == (0, 3)


def test_chunks_are_seamless(prf: TokenPrf, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = prf(np.arange(50)[:, None], np.arange(7))
    monkeypatch.setattr("wmbench.keys._CHUNK", 8)
    assert np.array_equal(prf(np.arange(50)[:, None], np.arange(7)), whole)


def test_keys_purposes_and_order_matter(key: SecretKey, prf: TokenPrf) -> None:
    draws: list[npt.NDArray[np.uint64]] = [
        prf(3, 4),
        prf(4, 3),
        prf(3, 4, 0),
        key.token_prf("kgw", 1, "red")(3, 4),
        key.token_prf("kgw", 2, "green")(3, 4),
        key.derive("x").token_prf("kgw", 1, "green")(3, 4),
    ]
    assert len({int(draw) for draw in draws}) == len(draws)


def test_token_uniforms(prf: TokenPrf) -> None:
    pairs = np.arange(200)[:, None], np.arange(200)
    u = prf.uniforms(*pairs)
    assert np.array_equal(u, (prf(*pairs) >> np.uint64(11)) / 2**53)
    assert stats.kstest(u.ravel(), "uniform").pvalue > 0.01
    assert abs(np.asarray(np.corrcoef(u))[np.triu_indices(200, 1)]).max() < 5.5 / np.sqrt(200)


def test_tokens_must_be_integers(prf: TokenPrf) -> None:
    with pytest.raises(TypeError, match="expected integers"):
        prf(1.5, 2)  # type: ignore[arg-type]
