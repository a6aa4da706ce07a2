"""Auxiliary uniforms: a function of key, reading and channel, uniform, and never the same twice."""

import copy
import hashlib

import numpy as np
import pytest
from scipy import stats

from understudy.errors import ConfigurationError
from understudy.laws.uniforms import SeededUniforms, Uniforms, uniforms_from

KEY = bytes(range(32))
BOTH = [Uniforms(KEY), SeededUniforms(KEY)]


@pytest.mark.parametrize("uniforms", BOTH, ids=repr)
@pytest.mark.parametrize("d", [1, 3, 8, 11])
def test_one_by_one_in_blocks_and_from_the_middle(uniforms, d):
    """A reading has the same uniforms however it is asked for."""
    whole = uniforms.block(0, 40, d)
    assert np.array_equal(np.stack([uniforms.at(k, d) for k in range(40)]), whole)
    assert np.array_equal(uniforms.block(17, 9, d), whole[17:26])


@pytest.mark.parametrize("uniforms", BOTH, ids=repr)
def test_pieces_and_arrays_that_are_given(uniforms):
    """More than are made at a time, from the middle of a digest, into an array that is there: the same numbers."""
    whole = uniforms.block(0, 20_000, 1)
    out = np.full((12_000, 1), 7.0)
    assert uniforms.block(5003, 12_000, 1, out) is out
    assert np.array_equal(out, whole[5003:17_003])


def test_the_uniforms_of_a_key_are_these():
    """By hashlib alone, so that stored keys keep their meaning; a seed's by Philox, likewise."""
    raw = hashlib.blake2b((2).to_bytes(8, "little"), key=KEY).digest()
    wanted = [(int.from_bytes(raw[8 * i : 8 * i + 8], "little") // 2**12 + 0.5) / 2**52 for i in range(8)]
    assert Uniforms(KEY).block(16, 8, 1)[:, 0].tolist() == wanted
    key = np.frombuffer(hashlib.blake2b(KEY, digest_size=16).digest(), dtype="<u8")
    raw = np.random.Philox(key=key, counter=[4, 0, 0, 0]).random_raw(8).tolist()
    assert SeededUniforms(KEY).block(16, 8, 1)[:, 0].tolist() == [(bits // 2**12 + 0.5) / 2**52 for bits in raw]


@pytest.mark.sample(default=1, seconds=1, reason="laws scored far into their tails")
@pytest.mark.parametrize("uniforms", BOTH, ids=repr)
def test_they_are_uniform_and_independent(uniforms):
    """Kolmogorov-Smirnov and lag-one correlation of 100,000 uniforms (false alarm 1e-6 each)."""
    v = uniforms.block(3, 100_000, 1)[:, 0]
    assert stats.kstest(v, "uniform").pvalue > 1e-6
    assert abs(np.corrcoef(v[1:], v[:-1])[0, 1]) < stats.norm.isf(0.5e-6) / np.sqrt(len(v))
    assert stats.kstest(v**1.05, "uniform").pvalue < 1e-6


@pytest.mark.parametrize("uniforms", BOTH, ids=repr)
def test_sensors_and_keys_share_nothing(uniforms):
    """Another sensor, another key or another use has other uniforms; the same one the same."""
    first, second = uniforms.sensor(0).block(0, 100, 2), uniforms.sensor(1).block(0, 100, 2)
    assert not np.intersect1d(first, second).size
    assert not np.intersect1d(first, uniforms.block(0, 100, 2)).size
    assert np.array_equal(uniforms.sensor(0).block(0, 100, 2), first)
    assert uniforms.derive("a") != uniforms.derive("b")


@pytest.mark.parametrize("uniforms", BOTH, ids=repr)
def test_a_copy_goes_on_and_the_key_is_not_shown(uniforms):
    """Copies give the same uniforms; the text of one holds no key."""
    for twin in (copy.copy(uniforms), copy.deepcopy(uniforms)):
        assert np.array_equal(twin.block(0, 5, 2), uniforms.block(0, 5, 2))
    assert repr(uniforms) == f"{type(uniforms).__name__}()"
    assert KEY.hex() not in repr(uniforms)


def test_where_they_come_from():
    """None is a fresh key, bytes are a key, a seed repeats, a Generator moves on."""
    assert not np.array_equal(uniforms_from(None).at(0, 4), uniforms_from(None).at(0, 4))
    assert np.array_equal(uniforms_from(KEY).at(0, 4), Uniforms(KEY).at(0, 4))
    assert np.array_equal(uniforms_from(5).at(0, 4), uniforms_from(5).at(0, 4))
    rng = np.random.default_rng(5)
    assert not np.array_equal(uniforms_from(rng).at(0, 4), uniforms_from(rng).at(0, 4))


@pytest.mark.parametrize("bad", ["key", b"short", 1.5, object()])
def test_what_is_no_source_is_refused(bad):
    """A text, a key that is too short, and what numpy takes for no seed."""
    with pytest.raises(ConfigurationError):
        uniforms_from(bad)
