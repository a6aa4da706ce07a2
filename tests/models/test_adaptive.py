"""Adaptive models: oracles written another way, laws, paths, gaps, files and kernels."""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import sqlite3
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import scipy.integrate
import scipy.stats

import understudy as us
from understudy import checks
from understudy._compiled import load_plain
from understudy.errors import CheckError, MissingReadingError, ModelError, StateError, StoredFileError
from understudy.identify.history import History, Segment
from understudy.models import adaptive as module
from understudy.models.adaptive import CELLS, WINDOW, AdaptivePrior
from understudy.models.model import as_target
from understudy.transform.adaptive import score_path
from understudy.transform.gaps import restarting_map

PHI, NU = 0.95, 4


def prior(seed: int = 1, experts=module.EXPERTS, bins: int = 0, **given) -> AdaptivePrior:
    """A prior of two values that are unlike each other."""
    rng = np.random.default_rng(seed)
    mean = 0.1 * rng.standard_normal((2, 7))
    mean[:, 1], mean[1, 0] = -0.15, 0.4
    root = 0.05 * rng.standard_normal((2, 7, 7))
    counts = rng.gamma(30.0, 1.0, (2, CELLS, bins)) if bins else None
    noise = us.Scalar(scipy.stats.t(4.0, scale=2.0))
    targets = [us.AutoRegressive([0.7, 0.1, 0.05], 60.0 + 20.0 * v, noise) for v in (0, 1)]
    arguments = {"centre": 400.0, "spread": 20.0, "unit": 5.0, "rates": (0.7, 0.9), "start": (400.0, 20.0)}
    return AdaptivePrior(
        mean=mean, cov=root @ root.transpose(0, 2, 1), variance=[0.5, 1.5], experts=experts, counts=counts,
        targets=targets, **{**arguments, **given},
    )  # fmt: skip


def regressors(y, labels, p, t):
    """The regressors of reading t, by their definition."""
    steps = np.diff(y[:t])[::-1]
    change = next((t - s for s in range(t, 0, -1) if labels[s] != labels[s - 1]), None)
    decays = [0.0, 0.0] if change is None else [rate**change for rate in p.rates]
    level = (y[t - 1] - p.centre) / p.spread
    x = [1.0, level, *(steps[: p.order] / p.unit), steps[:WINDOW].mean() / p.unit, *decays]
    return np.array(x)


def path(T: int = 60, seed: int = 0):
    """Readings and the labels of a parameter that moves."""
    labels = np.repeat([0, 1, 0, 1], T // 4)
    p = prior()
    models = [us.Adaptive(p, v) for v in labels]
    return (
        us.sample(us.Family({0: us.Adaptive(p, 0), 1: us.Adaptive(p, 1)}).along(labels.tolist()), T, rng=seed),
        labels,
        models,
    )


def test_the_recursion_is_that_of_the_joint_normal_law():
    """Predictive mean and spread of one expert by conditioning: beta_i and beta_j have covariance phi^|i-j| P0."""
    p = prior(experts=((PHI, NU),))
    y, labels, _ = path()
    mine = {v: [] for v in (0, 1)}
    s = dict(enumerate(p.variance.tolist()))
    state = us.Adaptive(p, 0).start()
    for t in range(len(y)):
        model = us.Adaptive(p, int(labels[t]))
        law = model.predict(state)
        if t > p.order:
            v, x = int(labels[t]), regressors(y, labels, p, t)
            rows = mine[v]
            X, e = np.array([r[0] for r in rows]).reshape(-1, 7), np.array([r[1] for r in rows])
            lag = np.arange(len(rows))
            C = PHI ** np.abs(lag[:, None] - lag) * (X @ p.cov[v] @ X.T) + np.eye(len(rows))
            c = PHI ** (len(rows) - lag) * (X @ p.cov[v] @ x)
            m = x @ p.mean[v] + c @ np.linalg.solve(C, e - X @ p.mean[v]) if rows else x @ p.mean[v]
            q = 1.0 + x @ p.cov[v] @ x - (c @ np.linalg.solve(C, c) if rows else 0.0)
            centre, scale = y[t - 1] + p.unit * m, p.unit * np.sqrt(s[v] * q)
            for z in (-2.0, 0.0, 1.0):
                oracle = centre + scale * scipy.stats.t(NU).ppf(scipy.stats.norm.cdf(z))
                assert law.value(z) == pytest.approx(oracle, rel=1e-10)
            r = (y[t] - y[t - 1]) / p.unit
            rows.append((x, r))
            s[v] = (1 - 1.4 / NU) * s[v] + 0.4 / NU * p.variance[v] + (r - m) ** 2 / q / NU
        state = model.update(state, y[t])


def test_the_mixture_weights_are_fixed_share():
    """Weights by brute force: the law of all experts is the mixture of the laws of single ones."""
    p = prior()
    singles = [replace(p, experts=(pair,)) for pair in p.experts]
    y = us.sample(us.Adaptive(p, 1), 80, rng=3)
    model, parts = us.Adaptive(p, 1), [us.Adaptive(single, 1) for single in singles]
    state, states, w = model.start(), [part.start() for part in parts], np.full(3, 1 / 3)
    for t, reading in enumerate(y.tolist()):
        densities = np.array([np.exp(part.predict(s).logpdf(reading)) for part, s in zip(parts, states, strict=True)])
        assert model.predict(state).logpdf(reading) == pytest.approx(np.log(w @ densities), rel=1e-9, abs=1e-9)
        if t > p.order:
            w = w * densities / (w @ densities)
            w = (1 - p.share) * w + p.share / 3
        state, states = (
            model.update(state, reading),
            [part.update(s, reading) for part, s in zip(parts, states, strict=True)],
        )


@pytest.mark.parametrize("bins", [0, 8])
def test_density_tails_and_quantiles_agree(bins):
    """The density integrates to the c.d.f. (by quadrature), far tails keep their digits, value undoes score."""
    model = us.Adaptive(prior(bins=bins), 0)
    state = model.start()
    for reading in us.sample(model, 30, rng=2).tolist():
        state = model.update(state, reading)
    law = model.predict(state)
    edges = sorted(law.value(scipy.stats.norm.ppf(k / 16)) for k in range(1, 16))
    for a, b in pairwise(edges):
        found = scipy.integrate.quad(lambda y: np.exp(law.logpdf(y)), a, b, epsabs=1e-12)[0]
        assert found == pytest.approx(1 / 16, abs=1e-6 if bins else 1e-9)  # a histogram jumps
    z = np.array([-12.0, -8.5, -3.0, -1e-9, 0.0, 0.5, 4.0, 9.0, 12.0])
    assert law.score(law.value(z)) == pytest.approx(z, abs=1e-9)
    assert np.all(np.diff(law.value(z)) > 0.0)


@pytest.mark.parametrize("nu", [2, 4, 10, 20, 60])
def test_the_algebraic_tail_is_students(nu):
    """Tails of Student's t with even degrees of freedom, against scipy."""
    t = np.concatenate([np.linspace(0.0, 12.0, 200), np.geomspace(12.0, 1e6, 40)])
    found = [module.kernels.student_tail(x, nu / 2) for x in t.tolist()]
    np.testing.assert_allclose(found, scipy.stats.t(nu).sf(t), rtol=3e-11)
    height = module._height(nu)
    dense = [module.kernels.student_density(x, nu / 2, height) for x in t.tolist()]
    np.testing.assert_allclose(dense, scipy.stats.t(nu).pdf(t), rtol=1e-11)


@pytest.mark.parametrize("bins", [0, 8])
def test_it_passes_the_checks(bins):
    """`check_model`, on a grid too, and `check_transform`, statistical checks with a false-alarm rate of 1e-6."""
    p = prior(bins=bins)
    low, high = us.Adaptive(p, 0), us.Adaptive(p, 1)
    assert checks.check_model(low, T=1000).passed
    assert checks.check_transform(low, high, T=500).passed
    coarse = us.Adaptive(replace(p, cell=5.0, floor=1 / 12), 1)
    assert checks.check_model(us.OnGrid(coarse, step=5.0), T=250).passed


def test_the_checks_fail_for_a_model_that_forgets_to_share():
    """The twin: a model whose law is another than the one that it learns from."""

    class Wrong(us.Adaptive):
        def predict(self, state):
            law = super().predict(state)
            return module.AdaptiveLaw(law._experts, law._law * np.repeat([1.0, 1.0, 0.7], 3), law._counts)

    model = us.Adaptive(prior(), 0)
    y = us.sample(model, 2000, rng=1)
    state, z = model.start(), []
    for reading in y.tolist():
        z.append(Wrong(model.prior, 0).predict(state).score(reading))
        state = model.update(state, reading)
    assert np.square(z).mean() > 1.5
    with pytest.raises(CheckError):
        checks.check_model(Wrong(model.prior, 0), T=300)


def test_posteriors_go_on_through_switches():
    """A path by `Family.along`, by maps that are handed over, and by the quick way gives the same scores."""
    y, labels, _ = path(80, seed=4)
    family = us.Family({v: us.Adaptive(prior(bins=8), v) for v in (0, 1)})
    whole = us.whiten(y, family.along(labels.tolist()))
    _, quick = score_path([family.model(v) for v in (0, 1)], y[:, None], labels)
    refill = family.model(0).refill
    np.testing.assert_allclose(quick[refill:, 0], whole[refill:], atol=1e-12)
    alone = us.whiten(y, family.model(0))
    assert not np.allclose(alone[30:40], whole[30:40])


def test_after_a_gap_memory_is_filled_and_what_was_learned_stays():
    """Nothing leaves for the first readings after a gap, and then scores rest on what was learned before it."""
    p = prior()
    source, target = us.Adaptive(p, 0), as_target(us.Adaptive(p, 1))
    made = restarting_map(source, target)
    y = us.sample(source, 60, rng=5)
    y[30:33] = np.nan
    state, out = made.apply(made.start(), y[:, None])
    missing = np.isnan(out[:, 0])
    assert np.flatnonzero(missing).tolist() == [0, 1, 2, 30, 31, 32, 33, 34, 35]
    after, steps = made.start(), []
    for reading in y.tolist():
        after, value = made.step(after, reading)
        steps.append(value)
    assert np.array_equal(np.array(steps), out[:, 0], equal_nan=True)
    kept = source.restart(state[1])
    assert np.array_equal(kept[15:], state[1][15:])
    assert not np.array_equal(kept[15:], source.start()[15:])
    with pytest.raises(MissingReadingError):
        source.skip(source.start())


def test_grid_scores_are_exact_cells():
    """The score of a reading on a grid at uniform v is Phi^-1(F(lower) + v P), and cells add up to one."""
    p = prior(cell=5.0, floor=1 / 12, bins=4)
    model = us.OnGrid(us.Adaptive(p, 0), step=5.0)
    y = us.sample(model, 40, rng=6)
    state = model.start()
    for reading in y.tolist():
        inside = us.Adaptive(p, 0).predict(state)
        law = model.predict(state)
        a, b = (scipy.stats.norm.cdf(inside.score(reading + half)) for half in (-2.5, 2.5))
        assert law.score(reading, 0.3) == pytest.approx(scipy.stats.norm.ppf(a + 0.3 * (b - a)), abs=1e-6)
        state = model.update(state, reading)
    cells = np.arange(-4000.0, 5000.0, 5.0)
    assert np.exp(model.predict(state).logpdf(cells)).sum() == pytest.approx(1.0, abs=1e-4)


def test_plateaus_have_scores_that_do_not_collapse():
    """Readings of which three in four do not move: randomised scores are about normal, and densities finite."""
    rng = np.random.default_rng(8)
    y = 400.0 + np.cumsum(np.where(rng.random(1500) < 0.76, 0.0, 5.0 * rng.integers(-2, 3, 1500)))
    p = prior(cell=5.0, floor=1 / 12)
    z = us.whiten(y, us.OnGrid(us.Adaptive(p, 0), step=5.0), rng=1)[50:]
    assert abs(z.mean()) < 0.15
    assert 0.7 < z.std() < 1.3


def test_compiled_and_plain_give_the_same_bits(monkeypatch):
    """Scores, readings and states, on a grid too."""
    p = prior(bins=8)
    z = np.random.default_rng(9).standard_normal(150)

    def run():
        q = replace(p)  # tables as the kernels read them
        model = us.Adaptive(q, 0)
        grid = us.OnGrid(us.Adaptive(replace(q, cell=2.0), 1), step=2.0)
        y = us.colour(z, model)
        return (
            y,
            us.whiten(y, model),
            us.whiten(np.round(y / 2.0) * 2.0, grid, rng=1),
            model.update(model.start(), 400.0),
        )

    first = run()
    source = Path(module.__file__).parent / "_kernels_adaptive.py"
    monkeypatch.setattr(module, "kernels", load_plain("adaptive_kernels_under_test", str(source)))
    monkeypatch.setattr("understudy.transform.adaptive.kernels", module.kernels)
    monkeypatch.setattr(module, "view", memoryview)
    monkeypatch.setattr("understudy.transform.adaptive.view", memoryview)
    for one, other in zip(first, run(), strict=True):
        assert np.array_equal(one, other)


def test_the_compiled_kernels_run_where_there_is_a_compiler():
    """As for the kernels of transformations."""
    assert shutil.which("cc") is None or os.environ.get("UNDERSTUDY_PURE") == "1" or module.compiled


def test_it_is_stored_and_pickled():
    """A model comes back with the same numbers, alone, in a family on a grid, and through pickle."""
    p = prior(bins=4)
    family = us.Family({v: us.OnGrid(us.Adaptive(p, v), step=1.0) for v in (0, 1)})
    again = us.Family.from_dict(family.to_dict())
    y = np.round(us.sample(us.Adaptive(p, 1), 50, rng=1))
    copy = pickle.loads(pickle.dumps(family.model(1)))  # noqa: S301  # our own
    for model in (again.model(1), copy):
        assert np.array_equal(us.whiten(y, model, rng=1), us.whiten(y, family.model(1), rng=1))
    assert again.to_dict() == family.to_dict()
    stored = family.to_dict()
    stored["models"][0]["model"]["prior"]["share"] = 2.0
    with pytest.raises(StoredFileError):
        us.Family.from_dict(stored)


@pytest.mark.parametrize(
    "wrong",
    [
        {"share": 1.0}, {"unit": 0.0}, {"experts": ()}, {"experts": ((0.9, 3),)}, {"experts": ((1.1, 4),)},
        {"experts": ((0.9, 4),) * 13}, {"rates": (1.0, 0.5)}, {"variance": [1.0, -1.0]}, {"mean": np.zeros((2, 3))},
        {"start": (0.0, 0.0)}, {"cell": -1.0}, {"counts": np.zeros((2, CELLS, 4))}, {"targets": [1, 2]},
        {"centre": np.nan}, {"cov": -np.ones((2, 7, 7))},
    ],
)  # fmt: skip
def test_wrong_priors_are_refused(wrong):
    """Each number that breaks a rule."""
    p = prior()
    with pytest.raises(ModelError):
        replace(p, **wrong)


def test_wrong_states_and_values_are_refused():
    """A state of another size, and a value that there is not."""
    model = us.Adaptive(prior(), 0)
    with pytest.raises(StateError):
        model.predict(np.zeros(3))
    with pytest.raises(ModelError):
        us.Adaptive(prior(), 2)
    with pytest.raises(ModelError):
        us.Adaptive(replace(prior(), targets=()), 0).as_target()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")
@pytest.mark.parametrize(
    "kills", [6, pytest.param(60, marks=pytest.mark.long(seconds=6, reason="60 kills"))]
)  # fmt: skip
def test_a_stream_killed_at_any_moment_goes_on_bit_for_bit(tmp_path, kills):
    """Switches, gaps, a grid, its uniforms and a fresh share: what the model learned and all chance are as before.

    The twin forgets what it learned at one break, and has other outputs.
    """
    p, T = prior(bins=4), 400
    family = us.Family({v: us.OnGrid(us.Adaptive(p, v), step=1.0) for v in (0, 1)})
    design = us.design(family, leakage=0.1, horizon=20, fresh=0.6)
    labels = np.repeat([0, 1], 50)[np.arange(T) % 100]
    y = np.round(us.sample(us.Adaptive(p, 0), T, rng=2))
    y[[60, 61, 200]] = np.nan

    def feed(path, batch=7):
        with us.Ledger(path) as ledger:
            stream = us.Stream.open(ledger, design, "room")
            while stream.count < T:
                at = stream.count
                stream.apply(y[at : at + batch], keys=range(at, min(at + batch, T)), theta=labels[at : at + batch])

    for name in ("whole", "killed", "twin"):
        with us.Ledger(tmp_path / name) as ledger:
            design.stream(theta=0, ledger=ledger, name="room", gaps="withhold", rng=7)
    feed(tmp_path / "whole", T)
    rng = np.random.default_rng(kills)
    for _ in range(kills):
        child = os.fork()
        if child == 0:
            try:
                feed(tmp_path / "killed")
            finally:
                os._exit(0)
        time.sleep(rng.uniform(0.0, 0.05))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    feed(tmp_path / "killed")
    with us.Ledger(tmp_path / "twin") as ledger:
        stream = us.Stream.open(ledger, design, "room")
        stream.apply(y[:100], keys=range(100), theta=labels[:100])
        stream.apply([None], keys=[100], theta=labels[100:101])  # a reading that was there, lost
        stream.apply(y[101:], keys=range(101, T), theta=labels[101:])
    whole, killed, twin = (stored(tmp_path / name) for name in ("whole", "killed", "twin"))
    assert np.isfinite(list(whole.values())).sum() == T - 3 - 3 - 2 * 3
    assert sorted(killed) == list(range(T))
    assert np.array_equal(list(whole.values()), [killed[k] for k in whole], equal_nan=True)
    assert not np.array_equal([whole[k] for k in range(150, T)], [twin[k] for k in range(150, T)], equal_nan=True)


def stored(path):
    """Outputs of a ledger by key; NaN for what was missing or withheld."""
    with sqlite3.connect(path) as db:
        found = dict(db.execute("SELECT key, value FROM outputs ORDER BY key").fetchall())
    return {key: np.nan if value is None else value for key, value in found.items()}


@pytest.mark.parametrize("grid", [False, True])
@pytest.mark.parametrize("output", ["lifelike", "least-change"])
def test_chunks_and_steps_agree_with_shares_outputs_and_gaps(grid, output):
    """A design that decides as it goes: lifelike or of least change, with a fresh share, on a grid or not."""
    p, T = prior(bins=4), 300
    models = {v: us.OnGrid(us.Adaptive(p, v), step=1.0) if grid else us.Adaptive(p, v) for v in (0, 1)}
    family, labels = us.Family(models), np.repeat([0, 1, 0, 1, 0, 1], 50)
    y = us.sample(family.along(labels.tolist()), T, rng=4)
    history = History(("co2",), "people", None, (), (0, 1), None, (Segment("1", None, y[:, None], labels),), ())
    given = {"output": output, "history": history} if output == "least-change" else {}
    cost = "mae" if given else [[0.0, 1.0], [1.0, 0.0]]
    stay = [[0.9, 0.1], [0.1, 0.9]]
    design = us.design_causal(
        family, stay, rate=0.1, distortion=cost, decision_every=10, fresh=0.5, resolution=2.0**-6, **given
    )
    y[[77, 78]] = np.nan
    whole = design.stream(rng=3, gaps="withhold").apply(y, theta=labels.tolist())
    single = design.stream(rng=3, gaps="withhold")
    steps = [single.step(None if np.isnan(x) else float(x), theta=int(v)) for x, v in zip(y, labels, strict=True)]
    assert np.array_equal(whole, np.array([np.nan if x is None else x for x in steps]), equal_nan=True)
    assert np.isfinite(whole).sum() == T - 3 - 2 - 3


def test_a_stream_goes_on_bit_for_bit(tmp_path):
    """A ledger that is opened again, with switches and a gap between, gives what one stream without a break gives."""
    p = prior(bins=4)
    family = us.Family({v: us.OnGrid(us.Adaptive(p, v), step=1.0) for v in (0, 1)})
    design = us.design(family, leakage=0.1, horizon=20)
    design.save(tmp_path / "d.json")
    design = us.load_design(tmp_path / "d.json")
    y = np.round(us.sample(us.Adaptive(p, 0), 60, rng=2))
    labels = np.repeat([0, 1, 0], 20)
    given = [(None if k == 25 else float(y[k]), int(labels[k])) for k in range(60)]

    def numbers(outputs):
        return np.array([np.nan if out is None else out for out in outputs], dtype=float)

    stream = design.stream(theta=0, gaps="withhold")
    blob, whole = stream.snapshot(), []
    for reading, theta in given:
        whole.append(stream.step(reading, theta=theta))
    broken, stream = [], us.Stream.restore(design, blob)
    for k, (reading, theta) in enumerate(given):
        broken.append(stream.step(reading, theta=theta))
        if k % 7 == 3:
            stream = us.Stream.restore(design, stream.snapshot())
    assert np.array_equal(numbers(whole), numbers(broken), equal_nan=True)
    assert np.isfinite(numbers(whole)).sum() == 60 - 3 - 1 - 3
    with us.Ledger(tmp_path / "one.db") as ledger:
        stream = design.stream(theta=0, ledger=ledger, name="room", gaps="withhold", rng=7)
        whole = [stream.step(reading, theta=theta) for reading, theta in given]
    with us.Ledger(tmp_path / "two.db") as ledger:
        design.stream(theta=0, ledger=ledger, name="room", gaps="withhold", rng=7)
    broken = []
    for start in range(0, 60, 7):  # the process ends, and another goes on from what the ledger holds
        with us.Ledger(tmp_path / "two.db") as ledger:
            stream = us.Stream.open(ledger, design, "room")
            broken += [stream.step(reading, theta=theta) for reading, theta in given[start : start + 7]]
    assert np.array_equal(numbers(whole), numbers(broken), equal_nan=True)
