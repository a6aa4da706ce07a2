"""No adversary beats the exact bound; adversaries who see too much are caught by the same test."""

import numpy as np
import pytest
import scipy.stats
from helpers import ALPHA, dense, dense_scores

import understudy as us
from understudy.paper import estimates as adversary
from understudy.paper import setting as room
from understudy.paper.setting import Settings
from understudy.report.figures import Bounds, ErrorCurve

N = 20_000
LEAKAGES = (0.0, 0.1, 0.3, 0.5, 0.68)


@pytest.fixture(scope="module")
def curve():
    return adversary.attack(LEAKAGES, N, np.random.default_rng(20))


@pytest.fixture(scope="module")
def design():
    return room.make_design(0.3)


def mislabelled(design, n, rng):
    """A filter that whitens every room as if it were empty: what theta adds stays in the scores."""
    rows = rng.integers(2, size=n)
    columns = adversary.draws(design, rows, rng)
    out = np.empty((room.HORIZON, n))
    for i in (0, 1):
        for j in np.unique(columns):
            at = np.flatnonzero((rows == i) & (columns == j))
            Y = us.sample(room.room(i), room.HORIZON, n=len(at), rng=rng)
            out[:, at] = us.disguise(Y, source=room.room(0), target=room.room(room.PSEUDO[j]))[:, 0]
    return rows, out


def chance(design, wrong, n):
    """That somebody who errs as often as the bound has so few wrong guesses."""
    return float(ErrorCurve(n, {"it": np.array([wrong])}, Bounds.of([design])).chances("it")[0])


def test_no_adversary_is_below_the_exact_bound(curve):
    """One-sided binomial tests; 1e-6 is the false-alarm rate of all of them together."""
    for name in adversary.ADVERSARIES:
        assert (curve.chances(name) > ALPHA / (3 * len(LEAKAGES))).all()


@pytest.mark.parametrize("leakage", [0.0, 0.3, 0.68])
def test_the_test_catches_adversaries_who_see_undisguised_readings(leakage):
    """The same estimator on what a filter that does nothing lets through."""
    design = room.make_design(leakage)
    wrong = adversary.errors_on_raw(N, np.random.default_rng(21))
    assert chance(design, wrong["consistent estimator"], N) < ALPHA / (3 * len(LEAKAGES))
    assert chance(design, wrong["best adversary"], N) < ALPHA / (3 * len(LEAKAGES))


def test_the_test_catches_a_filter_that_whitens_under_the_wrong_label(design):
    """The understudy is drawn right and every draw is secret, yet theta stays in the scores."""
    rows, out = mislabelled(design, N, np.random.default_rng(22))
    wrong = int((adversary.by_estimator("consistent", design, out) != rows).sum())
    assert chance(design, wrong, N) < ALPHA / (3 * len(LEAKAGES))


@pytest.mark.parametrize("estimator", ["printed", "consistent"])
def test_simulated_errors_are_the_exact_ones(curve, estimator):
    """Two-sided binomial at 1e-6 for all points; the exact error is a sum of normal probabilities."""
    for at, leakage in enumerate(LEAKAGES):
        exact = adversary.expected_error(room.make_design(leakage), estimator)
        wrong = int(curve.wrong[f"{estimator} estimator"][at])
        assert scipy.stats.binomtest(wrong, N, exact).pvalue > ALPHA / len(LEAKAGES)


def test_the_same_comparison_catches_the_other_estimator(curve):
    """Wrong guesses of the consistent estimator are not those expected of the printed one."""
    exact = adversary.expected_error(room.make_design(0.3), "printed")
    wrong = int(curve.wrong["consistent estimator"][LEAKAGES.index(0.3)])
    assert scipy.stats.binomtest(wrong, N, exact).pvalue < ALPHA / len(LEAKAGES)


def test_the_posterior_is_that_of_the_joint_gaussian():
    """Few readings that leave a doubt, and a kernel that plays three parts: Bayes' rule by one big covariance."""
    family = us.Family(lambda v: us.GaussMarkov(0.9, 1.0, 0.5, 0.5, b=0.3 * v, mean0=0.0, cov0=1.0), values=[0, 1])
    design = us.design(family, [0, 0.5, 1], leakage=0.2, horizon=6, distortion="mse")
    out = us.sample(family.model(0.5), 6, n=5, rng=4)[:, 0]
    found = adversary.posterior(design, out)
    for sensor in range(5):
        logs = []
        for value in design.pseudo:
            system = {"A": 0.9, "C": 1.0, "Q": 0.5, "R": 0.5, "b": 0.3 * value, "mean0": 0.0, "cov0": 1.0}
            logs.append(dense_scores(out[:, [sensor]], *dense(system, 6))[1])
        joint = design.prior * (design.randomizer.kernel @ np.exp(logs))
        np.testing.assert_allclose(found[:, sensor], joint / joint.sum(), rtol=1e-9)
        assert 0.01 < found[0, sensor] < 0.99


def test_what_is_released_has_the_law_of_the_understudy(design):
    """The whole pipeline: given the draw, scores under its model are white, whatever the occupancy."""
    rows = np.zeros(4000, dtype=int)
    columns = adversary.draws(design, rows, np.random.default_rng(5))
    share = design.randomizer.kernel[0, -1]
    assert scipy.stats.binomtest(int((columns == 5).sum()), 4000, share).pvalue > ALPHA
    theta, out = adversary.release(design, 4000, np.random.default_rng(6))
    # the first reading tells 0 from 1 apart by ten standard deviations
    played = (out[0] > 100.0).astype(int)
    assert scipy.stats.binomtest(int((played != theta).sum()), 4000, share).pvalue > ALPHA
    for value in (0, 1):
        z = us.whiten(out[:, None, played == value], room.room(value))
        assert scipy.stats.kstest(z[20].ravel(), "norm").pvalue > ALPHA


def test_bands_are_clopper_and_pearson(curve):
    """As scipy gives them, at both ends too."""
    edge = ErrorCurve(50, {"it": np.array([0, 7, 50])}, Bounds(*np.full((4, 3), 0.1)))
    low, high = edge.band("it", 0.95)
    for at, wrong in enumerate((0, 7, 50)):
        wanted = scipy.stats.binomtest(wrong, 50).proportion_ci(0.95)
        assert (low[at], high[at]) == pytest.approx((wanted.low, wanted.high))


def test_the_outcome_has_its_numbers_and_its_figure():
    """At I_0 = 0.68 and 0.3 the consistent estimator sits on the bound; nobody beats it; the figure has its axes."""
    outcome = adversary.compute_errors(Settings(quick=True))
    n = outcome.numbers
    assert n["exact_at_0.3"] == pytest.approx(0.1335860, abs=1e-6)
    assert n["exact_at_0.68"] == pytest.approx(0.0017957, abs=1e-6)
    assert n["fano_at_0.3"] == pytest.approx(n["exact_at_0.3"], rel=1e-9)
    assert n["fano_paper_at_0.3"] == pytest.approx(-0.3 / np.log(2.0))
    assert not adversary.is_beaten(n)
    (draw,) = outcome.pictures.values()
    figure = draw()
    figure.canvas.draw()
    assert [ax.get_xlabel() for ax in figure.axes] == ["leakage $I_0$ (nats)"] * 3
