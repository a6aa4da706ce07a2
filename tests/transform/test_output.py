"""`out=`: results in an array that the caller gives, with the same bits, or a refusal that names the rule."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from helpers import random_system, room, same_bits

import understudy as us
from understudy.errors import ConfigurationError

KEY = b"a key for the tests of out"


def cases():
    """Every kind of path: name -> (readings, source, target)."""
    rng = np.random.default_rng(41)
    pair = [us.GaussMarkov(**random_system(rng, n, 2)) for n in (3, 2)]
    rounded = [us.Quantised(room(v), step=0.1) for v in (1, 0.6)]
    heavy = [us.AutoRegressive([0.5], noise=us.Scalar(scipy.stats.t(df))) for df in (3, 5)]
    chain = [
        us.HiddenMarkov([[0.9, 0.1], [0.2, 0.8]], [0.5, 0.5], [us.Gaussian(m, 1.0), us.Gaussian(m + 3.0, 1.0)])
        for m in (0.0, 1.0)
    ]
    atoms = [us.IID(us.Atoms([0.0, 1.0, 2.0], p)) for p in ([0.2, 0.3, 0.5], [0.6, 0.2, 0.2])]
    given = {
        "scalar": (us.sample(room(1), 300, rng=1), room(1), room(0.6)),
        "column": (us.sample(room(1), 300, rng=1)[:, None], room(1), room(0.6)),
        "vector": (us.sample(pair[0], 200, rng=2), *pair),
        "sensors": (us.sample(room(1), 200, n=3, rng=3), room(1), room(0.6)),
        "rounded": (us.sample(rounded[0], 300, rng=4), *rounded),
        "rounded sensors": (us.sample(rounded[0], 100, n=2, rng=4), *rounded),
        "from rounded": (us.sample(rounded[0], 300, rng=4), rounded[0], room(0.6)),
        "to rounded": (us.sample(room(1), 300, rng=4), room(1), rounded[1]),
        "heavy tails": (us.sample(heavy[0], 200, rng=5), *heavy),
        "hidden": (us.sample(chain[0], 200, rng=6), *chain),
        "atoms": (us.sample(atoms[0], 200, rng=7), *atoms),
        "mixed": (us.sample(chain[0], 200, rng=6), chain[0], room(0)),
    }
    gaps = given["scalar"][0].copy()
    gaps[[3, 50, 51]] = np.nan
    given["gaps"] = (gaps, room(1), room(0.6))
    many = given["sensors"][0].copy()
    many[20:25, 0, 1] = np.nan
    given["sensors with gaps"] = (many, room(1), room(0.6))
    return given


CASES = cases()


def jobs(Y, source, target):
    """The three functions, as functions of the input and `out`."""
    return {
        "disguise": lambda given, out: us.disguise(given, source, target, rng=KEY, out=out),
        "whiten": lambda given, out: us.whiten(given, source, rng=KEY, out=out),
        "colour": lambda given, out: us.colour(given, target, out=out),
    }


@pytest.mark.parametrize("name", list(CASES))
def test_the_same_bits_in_an_array_that_is_given(name):
    """Elsewhere and in place; the array that was given comes back; the input elsewhere is left alone."""
    Y, source, target = CASES[name]
    z = us.whiten(Y, source, rng=KEY)
    for job, run in jobs(Y, source, target).items():
        given = z if job == "colour" else Y
        wanted = run(given, None)
        before, out = given.copy(), np.full(given.shape, 7.0)
        assert run(given, out) is out
        assert same_bits(out, wanted)
        assert same_bits(given, before)
        again = given.copy()
        assert run(again, again) is again
        assert same_bits(again, wanted)


def test_inputs_that_are_no_arrays_of_floats():
    """Lists and whole numbers are converted, and the output still goes where it was asked for."""
    wanted = us.disguise([105.0, 109.0, 112.0], room(1), room(0.6))
    for given in ([105, 109, 112], np.array([105, 109, 112]), np.array([105.0, 109.0, 112.0], dtype=np.float32)):
        out = np.empty(3)
        assert us.disguise(given, room(1), room(0.6), out=out) is out
        assert same_bits(out, wanted)
    strided = np.repeat([105.0, 109.0, 112.0], 2)[::2]
    assert same_bits(us.disguise(strided, room(1), room(0.6), out=np.empty(3)), wanted)


def read_only():
    array = np.empty(4)
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    ("out", "rule"),
    [
        ([0.0] * 4, "of type list; it must be a numpy array"),
        (np.ma.masked_array(np.empty(4)), "of type MaskedArray; it must be a numpy array"),
        (np.empty(5), r"shape \(5,\); it must have that of Y, \(4,\)"),
        (np.empty((4, 1)), r"shape \(4, 1\); it must have that of Y, \(4,\)"),
        (np.empty(4, dtype=np.float32), "of type float32; it must be float64"),
        (np.empty(4, dtype=int), "of type int64; it must be float64"),
        (np.empty(4, dtype=np.dtype(float).newbyteorder()), "byte order"),
        (np.empty(8)[::2], "not contiguous"),
        (read_only(), "read-only"),
    ],
    ids=["list", "masked", "long", "column", "float32", "int", "bytes", "strided", "read-only"],
)
def test_what_cannot_be_written_into_is_refused(out, rule):
    """By each function, naming the rule."""
    Y = np.array([105.0, 109.0, 112.0, 114.0])
    for call in (
        lambda: us.disguise(Y, room(1), room(0.6), out=out),
        lambda: us.whiten(Y, room(1), out=out),
    ):
        with pytest.raises(ConfigurationError, match=rule):
            call()
    with pytest.raises(ConfigurationError, match=rule.replace("of Y", "of z")):
        us.colour(Y, room(1), out=out)


def test_an_overlap_that_is_no_identity_is_refused():
    """Half of the input would be written over before it is read."""
    memory = np.linspace(100.0, 110.0, 10)
    with pytest.raises(ConfigurationError, match="out shares a part of its memory with Y; it must be all of Y or none"):
        us.disguise(memory[:6], room(1), room(0.6), out=memory[2:8])
    with pytest.raises(ConfigurationError, match="shares a part"):
        us.whiten(memory[:6].view(np.int64), room(1), out=memory[:6])
    with pytest.raises(ConfigurationError, match="shares a part"):
        us.whiten(memory[::2], room(1), out=memory[:5])
    apart = us.disguise(memory[:5], room(1), room(0.6), out=memory[5:])
    assert same_bits(apart, us.disguise(memory[:5], room(1), room(0.6)))


def test_a_whole_matrix_and_its_rows():
    """Vectors in place, and rows of a larger array."""
    Y, source, target = CASES["vector"]
    larger = np.zeros((250, 2))
    larger[25:225] = Y
    part = larger[25:225]
    assert us.disguise(part, source, target, out=part) is part
    assert same_bits(larger[25:225], us.disguise(Y, source, target))
    assert not larger[:25].any()
    assert not larger[225:].any()
