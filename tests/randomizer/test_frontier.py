"""The whole trade-off: from nothing told to all that is of use, convex and decreasing, each point proven."""

from __future__ import annotations

import math

import numpy as np
import pytest
from helpers import room
from randomizer_cases import cheapest_information

import understudy as us
from understudy.errors import DesignError


def level(v):
    return us.IID(us.Gaussian(v, 1.0))


CURVES = {
    "room": lambda: us.frontier(us.Family(room, [0, 1]), [0, 0.2, 0.4, 0.6, 0.8, 1], horizon=50, distortion="mae"),
    "levels": lambda: us.frontier(us.Family(level, range(5), [0.1, 0.2, 0.4, 0.2, 0.1]), np.linspace(0, 4, 9).tolist()),
    "two rooms": lambda: us.frontier(us.Family(room, [0, 1, 2, 5]), [0, 1, 2, 3, 4, 5], horizon=10),
}


def between(x, y):
    """The chord from each point's neighbour on the left to that on the right, at the point."""
    share = (x[1:-1] - x[:-2]) / (x[2:] - x[:-2])
    return (1.0 - share) * y[:-2] + share * y[2:]


@pytest.fixture(scope="module", params=CURVES)
def curve(request):
    return CURVES[request.param]()


def test_sixty_points_from_nothing_to_saturation(curve):
    """Growing budgets; nothing leaks at the first point, nothing more is gained at the last."""
    assert len(curve) == 60
    assert curve.leakages[0] == 0.0
    assert curve[0].leakage == 0.0
    assert (np.diff(curve.leakages) > 0.0).all()
    assert np.diff(curve.leakages).max() < 0.05 * curve.saturation
    first, last = curve[0], curve[59]
    assert first.distortion == pytest.approx(float((first.prior @ first.cost).min()), rel=1e-13)
    assert last.distortion == pytest.approx(float(last.prior @ last.cost.min(axis=1)), rel=1e-12, abs=1e-15)
    assert last.leakage == pytest.approx(curve.saturation, rel=1e-9)
    assert curve.saturation <= cheapest_information(last.cost, last.prior) * (1.0 + 1e-9)
    assert repr(curve).startswith("Frontier(60 designs, saturation=")


def test_the_curve_falls_and_is_convex(curve):
    """Each chord lies above the points between its ends; more may leak, less is distorted."""
    D, lower = curve.distortions, curve.lower_bounds
    scale = D[0] - D[-1]
    assert (np.diff(D) < 0.0).all()
    chords = between(curve.leakages, D)
    assert (D[1:-1] <= chords + 2e-9 * scale).all()
    assert (lower[1:-1] <= chords).all()  # what is proven is below what was reached at both sides


def test_a_concave_curve_would_be_noticed(curve):
    """The twin: the curve upside down is not convex."""
    D = -curve.distortions
    assert (D[1:-1] > between(curve.leakages, D) + 2e-9 * (D[-1] - D[0])).any()


def test_every_point_is_proven(curve):
    """Bounds, budgets and status of all points, and the slope that the curve has there."""
    assert (curve.lower_bounds <= curve.distortions).all()
    assert all(design.status == "optimal" for design in curve.designs)
    assert all(design.leakage <= design.budget for design in curve.designs)
    top = curve.distortions[0] - curve.distortions[-1]
    for design, following in zip(curve.designs[1:-2], curve.designs[2:-1], strict=True):
        fall = (design.distortion - following.distortion) / (following.budget - design.budget)
        # the chord to the right is flatter than the tangent, and the next tangent is flatter than the chord
        assert 1.0 / following.slope <= fall + 1e-7 * top
        assert fall <= 1.0 / design.slope + 1e-7 * top


def test_errors_grow_as_less_is_told(curve):
    """The probability of a wrong guess falls along the curve, from that of the prior."""
    errors = curve.errors
    assert errors[0] == pytest.approx(1.0 - curve[0].prior.max(), rel=1e-12)
    assert errors[-1] <= errors[0]
    assert errors.min() >= 0.0
    assert curve.distortion_errors.tolist() == [0.0] * 60


def test_each_point_is_the_design_for_its_budget():
    """A point of the curve is what us.design gives for that leakage, to the bit."""
    family = us.Family(room, [0, 1])
    curve = us.frontier(family, [0, 0.5, 1], horizon=50, distortion="mae", leakages=[0.1, "0.3 nats", "0.5 bit", "80%"])
    assert curve.leakages == pytest.approx([0.1, 0.3, 0.5 * math.log(2), 0.8 * math.log(2)], rel=1e-14)
    alone = us.design(family, [0, 0.5, 1], leakage=0.3, horizon=50, distortion="mae")
    assert np.array_equal(curve[1].randomizer.kernel, alone.randomizer.kernel)
    assert curve[1].distortion == alone.distortion == pytest.approx(17.346, abs=5e-4)
    assert curve.relative_distortions[1] == alone.relative_distortion


def test_relative_distortion_needs_a_mean_reading():
    """Readings of mean zero have no level to be relative to."""
    curve = us.frontier(us.Family(lambda v: us.IID(us.Gaussian(0.0, 1.0 + v)), [0, 1]), leakages=[0.1, 0.2])
    assert np.isnan(curve.relative_distortions).all()


@pytest.mark.parametrize(
    ("leakages", "words"),
    [
        ([], "leakages is empty"),
        ("40%", "must be several budgets"),
        (0.3, "must be several budgets"),
        ([0.1, -0.1], "must be 0 or more"),
        ([0.1, math.nan], "must be 0 or more"),
        ([0.1, "1 mile"], "written with its unit"),
    ],
)
def test_bad_budgets_of_a_curve(leakages, words):
    """One bad budget is named before any work is done."""
    with pytest.raises(DesignError, match=words):
        us.frontier(us.Family(room, [0, 1]), horizon=5, leakages=leakages)


def test_a_curve_wants_a_family():
    """Bare costs belong to us.solve."""
    with pytest.raises(DesignError, match="must be a Family"):
        us.frontier(1.0 - np.eye(3))
