"""A filter goes on under other models as along a path, or says that it cannot."""

from __future__ import annotations

import numpy as np
import pytest

import understudy as us
from understudy.errors import ModelError
from understudy.stream.engine import hand_over_state
from understudy.transform.core import transformation

KEY = b"k" * 32


def room(v):
    return us.GaussMarkov(A=0.95, C=1.0, Q=0.1, R=0.1, b=10.0 * v, mean0=100.0, cov0=1.0)


def chain(v):
    return us.HiddenMarkov([[0.8, 0.2], [0.2, 0.8]], [0.5, 0.5], [us.Gaussian(0.0, 1.0), us.Gaussian(3.0 + v, 1.0)])


def moving(v):
    p = 0.1 + 0.3 * v
    return us.HiddenMarkov([[1 - p, p], [p, 1 - p]], [0.5, 0.5], [us.Gaussian(0.0, 1.0), us.Gaussian(3.0, 1.0)])


def counts(v):
    return us.IID(us.Atoms([0.0, 1.0], [0.5 - 0.1 * v, 0.5 + 0.1 * v]))


def gappy(v):
    def across(y, steps):
        if y is None:
            return us.Gaussian(v, 4 / 3)
        return us.Gaussian(0.5**steps * (y - v) + v, (1 - 0.25**steps) / 0.75)

    return us.Markov(us.Gaussian(v, 4 / 3), lambda y: us.Gaussian(0.5 * (y - v) + v, 1.0), gap=across)


def both_ways(make, Y, n, path, pseudo):
    """Readings through two filters, one after the other; and along the path."""
    family = us.Family(make, values=[0, 1])
    old, new = (transformation(family.model(a), family.model(b), False, KEY) for a, b in zip(path, pseudo, strict=True))
    state, first = old.apply(old.start(), Y[:n, None])
    _, second = new.apply(hand_over_state(old, new, state), Y[n:, None])
    source, target = (family.along([a] * n + [b] * (len(Y) - n)) for a, b in (path, pseudo))
    return np.concatenate([first, second])[:, 0], us.disguise(Y, source=source, target=target, rng=KEY)


@pytest.mark.sample(default=15, seconds=1, reason="many streams")
@pytest.mark.parametrize("n", [3, 30])
@pytest.mark.parametrize(("path", "pseudo"), [((0, 1), (0.5, 0.5)), ((0, 0), (0.5, 0.2)), ((0, 1), (0.5, 0.2))])
@pytest.mark.parametrize(
    "make",
    [room, lambda v: us.Quantised(room(v), 0.1), lambda v: us.Quantised(room(v), 5.0), chain, counts],
    ids=["Gauss-Markov", "fine grid", "coarse grid", "hidden Markov", "atoms"],
)
def test_a_switched_filter_is_that_of_the_path(make, path, pseudo, n):
    """Source, target or both change: what is released is what the model along the path would have."""
    Y = us.sample(us.Family(make, values=[0, 1]).along([path[0]] * n + [path[1]] * (60 - n)), T=60, rng=1)
    switched, along = both_ways(make, Y, n, path, pseudo)
    np.testing.assert_allclose(switched, along, rtol=0, atol=1e-11)


@pytest.mark.parametrize(("path", "pseudo"), [((0, 1), (0, 0)), ((0, 0), (0, 1))])
def test_a_hidden_state_moved_by_another_transition_is_refused(path, pseudo):
    """The state holds a move by the old transition; the new value has another (0.7 off before)."""
    Y = us.sample(moving(0), T=20, rng=1)
    with pytest.raises(ModelError, match="moved by the transition of the old value"):
        both_ways(moving, Y, 10, path, pseudo)


def test_a_gap_across_a_switch_is_refused():
    """A Markov model bridges a gap with the law of one value; a switch inside it has none. The same value goes on."""
    Y = us.sample(gappy(0), T=20, rng=1)
    Y[8:10] = np.nan
    with pytest.raises(ModelError, match="no exact law across a gap"):
        both_ways(gappy, Y, 10, (0, 1), (0, 0))
    switched, along = both_ways(gappy, Y, 10, (0, 0), (0, 0))
    np.testing.assert_array_equal(switched, along)


def test_models_with_and_without_atoms_do_not_go_on_from_each_other():
    """One counts readings, the other does not."""
    with pytest.raises(ModelError, match="one kind and size"):
        both_ways(lambda v: counts(0) if v else us.IID(us.Gaussian(0.0, 1.0)), np.zeros(10), 5, (0, 1), (0, 0))


@pytest.mark.parametrize("a", [0.0, 1e-9, 1e-4, 0.5])
def test_the_past_is_kept_where_the_old_value_forgets_it(a):
    """After a change from a coefficient near 0 to 0.9 the reading before it counts in full: 2.7 follows 3.0 exactly."""
    family = us.Family({v: us.AutoRegressive(c, noise=us.Gaussian(0.0, 1.0)) for v, c in (("old", a), ("new", 0.9))})
    # a lattice fine enough to show it, which costs nothing where there is but one pseudo value
    design = us.design(family, pseudo=["old"], leakage=0.0, horizon=10, distortion="mse", resolution=2.0**-36)
    stream = design.stream("old")
    for y in (1.0, 3.0):
        stream.step(y)
    state = stream._now.position
    out = stream.step(2.7, theta="new")
    expected = us.disguise([1.0, 3.0, 2.7], family.along(["old", "old", "new"]), family.model("old"))[2]
    assert state.readings == 2
    assert out == pytest.approx(expected, abs=1e-9)
