"""Monte Carlo: agreement with what is exact, honest standard errors, common random numbers."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from helpers import OwnGaussMarkov, random_system, room
from scipy import stats

import understudy as us
from understudy.distortion import simulation
from understudy.distortion.costs import costs

FALSE_ALARM = 1e-6


def critical(tests):
    """Standard errors that an estimate may be off, at the false-alarm rate shared by so many tests."""
    return stats.norm.isf(FALSE_ALARM / tests / 2)


def absolute(y, y_out):
    """The mean absolute error, as a function of one's own."""
    return np.abs(y - y_out) if y.ndim == 1 else np.abs(y - y_out).mean(axis=0)


def test_monte_carlo_agrees_with_the_exact_matrix():
    """Within the critical value at a false-alarm rate of 1e-6; a slightly different family must fail."""
    systems = [random_system(np.random.default_rng(seed), 2, 2) for seed in (1, 2, 3)]
    family = us.Family(dict(enumerate(us.GaussMarkov(**system) for system in systems)))
    exact = costs(family, horizon=10, distortion="mae")
    found = costs(family, horizon=10, distortion=absolute, accuracy=0.002)
    assert set(found.method.ravel()) == {"Monte Carlo"}
    off = ~np.eye(3, dtype=bool)
    assert not np.diag(found.matrix).any()
    distance = np.abs(found.matrix - exact.matrix)[off] / found.error[off]
    assert distance.max() < critical(6)
    assert found.error.max() <= 0.002 * found.matrix.mean()
    systems[0] = systems[0] | {"C": systems[0]["C"] * 1.05}
    other = us.Family(dict(enumerate(us.GaussMarkov(**system) for system in systems)))
    wrong = costs(other, horizon=10, distortion="mae").matrix
    assert (np.abs(found.matrix - wrong)[off] / found.error[off]).max() > critical(6)


def test_a_model_of_ones_own_agrees_too():
    """Four methods are enough: the same law without its fast path, at a false-alarm rate of 1e-6."""
    family = us.Family(lambda v: OwnGaussMarkov(room(v, R=0.1 + 40.0 * v)), values=[0, 1])
    found = costs(family, pseudo=[0, 0.5, 1], horizon=5, accuracy=0.05)
    exact = costs(us.Family(lambda v: room(v, R=0.1 + 40.0 * v), values=[0, 1]), pseudo=[0, 0.5, 1], horizon=5)
    for name in ("matrix", "mean_reading"):
        error = getattr(found, "error" if name == "matrix" else "mean_reading_error")
        miss = np.abs(getattr(found, name) - getattr(exact, name))
        assert (miss <= critical(5) * error).all()
    assert (np.abs(found.matrix * 1.5 - exact.matrix) > critical(5) * found.error).any()
    assert found.mean_reading_error > 0.0


def test_standard_errors_cover():
    """200 seeds: the share within 1.96 standard errors is 0.95, at a false-alarm rate of 1e-6."""
    family = us.Family(lambda v: us.GaussMarkov(0.5, 1.0, 1.0 + v, 0.5, v, 0.0, 0.0, 1.0), values=[0.0, 1.0])
    exact = costs(family, horizon=4, distortion="mae")
    w = np.array([[0.1, 0.4], [0.3, 0.2]])
    truth = exact.expected(w)[0]
    entry, total = 0, 0
    for seed in range(200):
        found = costs(family, horizon=4, distortion=absolute, accuracy=0.05, rng=seed)
        entry += abs(found.matrix[0, 1] - exact.matrix[0, 1]) < 1.96 * found.error[0, 1]
        value, error = found.expected(w)
        total += abs(value - truth) < 1.96 * error
    # stopping when the error looks small, and 64 groups, cost a little of the coverage: 0.93 is still covered
    low, high = stats.binom.ppf(FALSE_ALARM / 2, 200, 0.93), stats.binom.isf(FALSE_ALARM / 2, 200, 0.96)
    for count in (entry, total):
        assert low <= count <= high
        assert count > stats.binom.isf(FALSE_ALARM, 200, 0.68)  # twin: one standard error would not do


def test_common_random_numbers_sharpen_differences():
    """The standard error of a difference of entries is far below that of independent entries."""
    family = us.Family(room, values=[0, 1])
    found = costs(family, pseudo=[0.5, 0.51], horizon=20, distortion=lambda y, x: (y - x + 0.3 * y) ** 2)
    _, difference = found.expected([[1.0, -1.0], [0.0, 0.0]])
    assert difference < 0.2 * np.hypot(*found.error[0])


def test_expected_is_the_weighted_sum():
    """Also where methods are mixed; the errors of entries that go together add up, not in squares."""
    student = us.Scalar(stats.t(5))
    models = {0: us.AutoRegressive(0.5, noise=student, past=0.0), 1: us.AutoRegressive(0.9, noise=student, past=0.0)}
    models[2] = us.AutoRegressive(0.9, 1.0, noise=us.Gaussian(0.0, 1.0), past=0.0)
    found = costs(us.Family(models), horizon=10, distortion="mae", accuracy=0.02)
    assert {"exact", "Monte Carlo"} == set(found.method.ravel())
    w = np.random.default_rng(0).random((3, 3))
    value, error = found.expected(w)
    assert value == pytest.approx((w * found.matrix).sum())
    assert 0.0 < error <= (w * found.error).sum() * 1.3
    only = np.zeros((3, 3))
    only[0, 2] = 1.0
    assert found.expected(only)[1] == pytest.approx(found.error[0, 2], rel=0.5)
    with pytest.raises(us.errors.DesignError, match="shape"):
        found.expected(w[:2])


def test_the_seed_decides():
    """The default seed is fixed; another seed or generator gives other figures."""
    family = us.Family(room, values=[0, 1])

    def run(rng=None):
        return costs(family, horizon=3, distortion=lambda y, x: np.minimum(y, x) ** 2, rng=rng).matrix

    assert np.array_equal(run(), run())
    assert np.array_equal(run(7), run(np.random.default_rng(7)))
    assert not np.array_equal(run(), run(7))


def test_the_cap_is_announced(monkeypatch):
    """An accuracy that is out of reach ends at the cap, with a warning and the error as it is."""
    monkeypatch.setattr(simulation, "MOST_REPLICATIONS", 1024)
    family = us.Family(lambda v: room(v, R=0.1 + v), values=[0, 1])
    with pytest.warns(us.errors.UnderstudyWarning, match="after 1024 replications"):
        found = costs(family, horizon=3, distortion=absolute, accuracy=1e-9)
    assert found.replications == 1024
    assert found.error.max() > 0.0


def test_long_sequences_go_in_small_batches(monkeypatch):
    """Where memory allows few sequences at a time, the groups still fill evenly."""
    family = us.Family(lambda v: room(v, R=0.1 + v), values=[0, 1])
    whole = costs(family, horizon=8, distortion=absolute, accuracy=0.5)
    monkeypatch.setattr(simulation, "_MEMORY", 40)
    parts = costs(family, horizon=8, distortion=absolute, accuracy=0.5)
    assert parts.replications == whole.replications == 256
    assert np.abs(parts.matrix - whole.matrix)[0, 1] < critical(1) * 1.5 * whole.error[0, 1]


def test_vectors_that_are_not_linear():
    """Independent Gaussian vectors under a function of one's own need no horizon: one reading is the limit."""
    family = us.Family(lambda v: us.IID(us.Gaussian([v, 0.0], [[1.0, 0.5], [0.5, 1.0 + v]])), values=[0.0, 1.0])

    def euclid(y, y_out):
        return np.sqrt(((y - y_out) ** 2).sum(axis=0))

    found = costs(family, distortion=euclid)
    assert found.horizon is None
    squares = 2.0 * costs(family).matrix  # Jensen: the mean norm is at most the root of the mean square
    assert (found.matrix <= np.sqrt(squares) + critical(2) * found.error).all()
    assert found.matrix[0, 1] > 0.9 * np.sqrt(squares[0, 1])


def test_progress_is_told():
    """Fractions between 0 and 1, the last of them 1, for every method."""
    family = us.Family(lambda v: room(v, R=0.1 + v), values=[0, 1])
    for choices in ({"distortion": "mae"}, {"distortion": absolute}):
        told = []
        costs(family, horizon=10, progress=told.append, **choices)
        assert told[-1] == 1.0
        assert all(0.0 <= fraction <= 1.0 for fraction in told)


def test_heavy_tails_that_quadrature_gives_up_are_announced():
    """A tail of p^-1/2 / log p, whose square is hardly integrable: simulated, and the error called into question."""

    class Hardly:
        """The law with the quantile function p^-1/2 / (1 - log p) on either side."""

        dim = 1

        def value(self, z):
            p = stats.norm.sf(np.abs(z))
            return np.sign(z) * (p**-0.5 / (1.0 - np.log(p)) - 2**0.5 / (1.0 + np.log(2.0)))

        def score(self, y, v=None):
            raise NotImplementedError

        def logpdf(self, y):
            raise NotImplementedError

    members = {0: us.IID(Hardly()), 1: us.IID(us.Gaussian(0.0, 1.0))}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = costs(us.Family(members), accuracy=0.5)
    assert found.method[0, 1] == "Monte Carlo"
    assert any("cannot be trusted" in str(warning.message) for warning in caught)


def recalling(v):
    """A Markov model that is simulated: half of what the last reading was off is kept."""
    return us.Markov(us.Gaussian(v, 1.0), lambda y: us.Gaussian(v + 0.5 * (y - v), 1.0))


def beyond(limit, price=1e4):
    """A price for readings above a limit, and nothing else."""
    return lambda y, _: price * (y > limit)


def priced(v, limit):
    """The expected price over two readings of `recalling`, whose variances are 1 and 1.25."""
    return 1e4 * np.mean([stats.norm.sf(limit - v), stats.norm.sf((limit - v) / 1.25**0.5)])


def test_a_rare_event_is_waited_for():
    """Not seen in the first replications, and then found within its error; twin: what it was before is told apart."""
    family, truth = us.Family(recalling, values=[0.0, 0.1]), [[priced(v, 3.3)] * 2 for v in (0.0, 0.1)]
    found = costs(family, horizon=2, distortion=beyond(3.3), accuracy=0.25)
    assert found.replications > 256
    # at least 16 events: Poisson, not normal, so the test is of their number
    events = found.matrix * found.replications * 2 / 1e4
    expected = np.array(truth) * found.replications * 2 / 1e4
    assert events.min() >= 16
    assert (stats.poisson.cdf(events, expected) > FALSE_ALARM / 8).all()
    assert (stats.poisson.sf(events - 1, expected) > FALSE_ALARM / 8).all()
    assert (found.error > 0.05 * found.matrix).all()
    assert (stats.poisson.cdf(0, expected) < FALSE_ALARM).all()


def test_an_event_that_never_shows_has_a_bound(monkeypatch):
    """Zero, with a warning, and an error of three in N times what the event costs, diagonal included."""
    monkeypatch.setattr(simulation, "MOST_REPLICATIONS", 4096)
    family = us.Family(recalling, values=[0.0, 0.1])
    with pytest.warns(us.errors.UnderstudyWarning, match="4 pairs was zero in all of 4096 replications"):
        found = costs(family, horizon=2, distortion=beyond(7.0))
    assert not found.matrix.any()
    np.testing.assert_allclose(found.error, 3 / 4096 * 1e4)
    assert (found.error > [[priced(v, 7.0)] * 2 for v in (0.0, 0.1)]).all()
    # bounds are not independent errors: they add up
    assert found.expected(np.full((2, 2), 0.25))[1] == pytest.approx(3 / 4096 * 1e4)


def test_a_function_that_is_zero_ends_soon(monkeypatch):
    """Zero everywhere: the search is bounded, and the error is three in N."""
    monkeypatch.setattr(simulation, "_UNSEEN_SLOW", 1 << 14)
    family = us.Family(recalling, values=[0.0, 0.1])
    with pytest.warns(us.errors.UnderstudyWarning, match="4 pairs was zero"):
        found = costs(family, horizon=10, distortion=lambda y, _: 0.0 * y)
    assert found.replications == simulation._UNSEEN_LEAST
    np.testing.assert_allclose(found.error, 3 / simulation._UNSEEN_LEAST)


def test_the_search_is_longest_where_models_are_quick():
    """Gauss-Markov models: the cap at two readings, fewer for long sequences, never below the least."""
    family = us.Family(room, values=[0, 1])
    for horizon, expected in ((2, 200_000), (1000, (1 << 24) // 2000), (100_000, simulation._UNSEEN_LEAST)):
        models = [family.model(0), family.model(1)]
        measure = simulation.Measure(absolute, 1)
        plan = simulation.Plan(models, models, np.ones((2, 2), bool), measure, horizon, 0.01)
        assert simulation._enough(plan) == expected


def test_a_pair_is_not_done_because_others_are():
    """A zero beside large entries is looked for too; one that does not vary has an error, and no warning."""
    family = us.Family(room, values=[0, 1])

    def above(y, y_out):
        return np.maximum(y - y_out, 0.0)

    with pytest.warns(us.errors.UnderstudyWarning, match="1 pairs was zero"):
        found = costs(family, horizon=50, distortion=above)
    assert found.matrix[0, 1] == 0.0 < found.error[0, 1]
    assert found.matrix[1, 0] == pytest.approx(costs(family, horizon=50, distortion="mae").matrix[1, 0])
    assert not np.diag(found.error).any()
    constant = costs(family, horizon=50, distortion=absolute)
    assert 0.0 < constant.error[0, 1] <= 0.01 * constant.matrix.mean()
    assert constant.replications <= 2048


def test_a_handful_of_events_is_not_enough(monkeypatch):
    """A few events beside a large entry: the error is at least three in N times the largest of them."""
    monkeypatch.setattr(simulation, "MOST_REPLICATIONS", 8192)
    family = us.Family(recalling, values=[0.0, 3.0])

    def mixed(y, y_out):
        return np.where(y_out > y, 1e3, 1.0 * (y > 6.7))

    with pytest.warns(us.errors.UnderstudyWarning, match="1 pairs was zero"):
        found = costs(family, horizon=2, distortion=mixed, accuracy=0.5)
    assert found.replications == 8192
    assert found.matrix[0, 1] == 1e3
    events = 2 * 8192 * found.matrix[1, 0]
    assert 0 < events < 16
    assert found.error[1, 0] >= 3 / 8192 / 2
    assert found.error[1, 0] > 0.5 * events**0.5 / 8192  # the plain standard error


def test_a_law_that_fails_far_out_does_no_harm(monkeypatch):
    """Stretched scores are only a look: whatever fails there is left out."""
    monkeypatch.setattr(simulation, "MOST_REPLICATIONS", 512)

    def picky(y, _):
        if np.abs(y).max() > 9.0:
            raise KeyError("no such reading")
        return 0.0 * y

    with pytest.warns(us.errors.UnderstudyWarning, match="zero in all of 512"):
        found = costs(us.Family(recalling, values=[0.0, 0.1]), horizon=2, distortion=picky)
    assert not found.matrix.any()


def _heavy_pair() -> us.AutoRegressive:
    spiky = us.Mixture([0.8, 0.2], [us.Gaussian(0.0, 0.01), us.Gaussian(-1.0, 9.0)])
    noise = us.GaussianCopula([[1.0, 0.6], [0.6, 1.0]], [us.Scalar(stats.t(3.0)), spiky])
    return us.AutoRegressive([[[0.9, 0.0], [0.1, 0.5]]], [1.0, 2.0], noise)


@pytest.mark.parametrize("on_grid", [False, True])
def test_noise_from_tables_gives_the_readings_of_the_laws(on_grid):
    """To a millionth on average; a table that is not close, here of far too few knots, is seen."""
    model = us.OnGrid(_heavy_pair(), step=[0.5, 0.1]) if on_grid else _heavy_pair()
    z = np.random.default_rng(3).standard_normal((300, 2, 8))
    exact, quick = (simulation.colour_all(z, made) for made in (model, simulation.with_tables(model)))
    assert np.abs(quick - exact).mean() < 1e-5
    law = _heavy_pair().noise.laws[1]
    coarse, fine = simulation.Tabulated(law, 8), simulation.tabulated(law)
    assert isinstance(fine, simulation.Tabulated)
    scores = np.linspace(-2.0, 2.0, 400)
    good, bad = (np.abs(table.value(scores) - law.value(scores)).max() for table in (fine, coarse))
    assert good < 1e-4 < bad
    np.testing.assert_allclose(fine.score(fine.value(scores)), scores, atol=1e-6)
    far = np.array([-9.0, 8.0])
    np.testing.assert_array_equal(fine.value(far), law.value(far))
