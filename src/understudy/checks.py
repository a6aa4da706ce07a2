"""What every model and every transformation must satisfy, for your own models as for ours.

>>> import understudy as us
>>> report = us.checks.check_model(us.IID(us.Gaussian(0.0, 1.0)), T=500)
>>> report.passed
True

A failure raises `CheckError`, which lists everything that failed. Statistical checks have a false alarm rate of 1e-6
each.

If a model is right, the scores of its readings are i.i.d. N(0, I). `whiteness` tests each way to fail: level, spread,
shape, correlation in time and across channels, of the scores themselves and of their magnitudes (which change when only
the noise level is wrong). Its p-values stay usable down to 1e-6 and below.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from understudy._types import Array, Numbers
from understudy.errors import CheckError, ConfigurationError, MissingReadingError, ReadingError
from understudy.laws.law import Law
from understudy.laws.uniforms import SeededUniforms
from understudy.models.model import Model, is_model
from understudy.transform.core import (
    Emit,
    RandomisedScore,
    Score,
    colouring,
    has_atoms,
    loglik,
    run,
    transformation,
    whiten,
    whitening,
    with_key,
)
from understudy.transform.readings import CausalMap, as_readings

# Are these scores independent standard normals? -------------------------------------------------------


class Evidence(NamedTuple):
    """One test: the probability of scores at least this odd, were they white."""

    name: str
    p_value: float


class Whiteness(NamedTuple):
    """All tests; `p_value` is the smallest of them, corrected for their number."""

    tests: tuple[Evidence, ...]

    @property
    def p_value(self) -> float:
        """Smallest p-value, Bonferroni-corrected."""
        return min(1.0, len(self.tests) * min(t.p_value for t in self.tests))

    @property
    def weakest(self) -> Evidence:
        """The test that the scores pass least well."""
        return min(self.tests, key=lambda t: t.p_value)


def whiteness(z: ArrayLike, lags: int = 10) -> Whiteness:
    """Test scores (T,), (T, d) or (T, d, N) jointly; missing ones are left out.

    >>> import numpy as np
    >>> z = np.random.default_rng(0).standard_normal((5000, 2))
    >>> whiteness(z).p_value > 1e-6
    True
    >>> whiteness(1.2 * z).p_value < 1e-6
    True
    """
    scores = np.asarray(z, dtype=float)
    scores = scores[:, None, None] if scores.ndim == 1 else scores[:, :, None] if scores.ndim == 2 else scores
    from scipy.special import ndtr

    # 2 Phi(|z|) - 1 is uniform; w is it with mean 0 and variance 1, and bounded, so sums of it settle fast
    w = math.sqrt(12.0) * (2.0 * ndtr(np.abs(scores)) - 1.5)
    lags = min(lags, len(scores) - 1)
    channels = range(scores.shape[1])
    flat = [column[~np.isnan(column)] for column in (scores[:, c].ravel() for c in channels)]
    tests = [
        Evidence("level", _smallest([_level(c) for c in flat])),
        Evidence("spread", _smallest([_spread(c) for c in flat])),
        Evidence("shape", _smallest([_anderson_darling(c) for c in flat])),
    ]
    if lags > 0:
        tests.append(Evidence("serial correlation", _correlation(scores, scores, range(1, lags + 1))))
        tests.append(Evidence("serial correlation of magnitudes", _correlation(w, w, range(1, lags + 1))))
        tests.append(Evidence("scores against past magnitudes", _correlation(scores, w, range(1, lags + 1))))
    if len(flat) > 1:
        tests.append(Evidence("correlation of channels", _correlation(scores, scores, range(1))))
        tests.append(Evidence("correlation of magnitudes of channels", _correlation(w, w, range(1))))
        tests.append(Evidence("scores against magnitudes of channels", _correlation(scores, w, range(1))))
    return Whiteness(tuple(tests))


def _smallest(p_values: list[float]) -> float:
    return min(1.0, len(p_values) * min(p_values))


def _level(z: Array) -> float:
    # sqrt(n) mean ~ N(0, 1), exactly
    return math.erfc(abs(float(z.sum())) / math.sqrt(2.0 * z.size))


def _spread(z: Array) -> float:
    from scipy.special import chdtr, chdtrc

    # sum z^2 ~ chi^2_n, exactly
    total = float(np.square(z).sum())
    return float(min(1.0, 2.0 * min(chdtr(z.size, total), chdtrc(z.size, total))))


def _anderson_darling(z: Array) -> float:
    """P-value of the Anderson-Darling statistic against N(0, 1), by the tail of its limit law.

    A^2 tends to sum_j chi^2_1 / (j (j + 1)), whose tail is that of the largest term, (1/2) chi^2_1,
    times prod_{j > 1} (1 - 2 / (j (j + 1)))^(-1/2) = sqrt(3).
    """
    from scipy.special import chdtrc, log_ndtr

    z = np.sort(z)
    n = z.size
    odd = 2.0 * np.arange(1, n + 1) - 1.0
    A2 = -n - float((odd * (log_ndtr(z) + log_ndtr(-z[::-1]))).sum()) / n
    return float(min(1.0, math.sqrt(3.0) * chdtrc(1.0, 2.0 * max(A2, 0.0))))


def _correlation(a: Array, b: Array, lags: range) -> float:
    """Joint test that the channels of `a` are uncorrelated with those of `b`, `lag` readings before."""
    from scipy.special import chdtrc

    total, count = 0.0, 0
    for lag in lags:
        now, before = a[lag:], b[: len(b) - lag]
        for i in range(a.shape[1]):
            # at lag 0 each pair counts once, and a channel is not compared with itself
            for j in range(b.shape[1]) if lag or a is not b else range(i):
                if lag == 0 and i == j:
                    continue
                product = now[:, i] * before[:, j]
                product = product[~np.isnan(product)]
                if product.size:
                    total += float(product.sum()) ** 2 / product.size
                    count += 1
    return float(chdtrc(count, total)) if count else 1.0


# What every model and every transformation must satisfy, for your own models as for ours -------------


FALSE_ALARM = 1e-6

# Where a model has a path of its own for chunks, it agrees with the four methods to this.
_SAME = 1e-9

# Fewer readings than this show nothing.
_FEWEST = 50


class Result(NamedTuple):
    """One check: what was checked, whether it holds, and how closely or why not."""

    name: str
    passed: bool
    detail: str


class Report(NamedTuple):
    """All checks of one model or transformation."""

    subject: str
    results: tuple[Result, ...]

    @property
    def passed(self) -> bool:
        """Whether every check holds."""
        return all(result.passed for result in self.results)

    def __str__(self) -> str:
        lines = [f"{'ok  ' if r.passed else 'FAIL'} {r.name}: {r.detail}" for r in self.results]
        return "\n".join([self.subject, *lines])


def check_model(model: Model, *, T: int = 2000, seed: int = 0) -> Report:
    """Check one model: its laws, its recursion and every path through it, on T readings drawn with `seed`.

    Returns a report, one line a check, or raises `CheckError` with it. The false-alarm rate of each
    statistical check is 1e-6. A pass is not a proof: a small fault needs many readings to show, so
    use a larger T, several seeds, and look at the p-values (small ones are bad).
    """
    T = _readings_to_use(T, model)
    return _report(f"{model!r}", _model_checks(model, T, np.random.default_rng(seed)))


def check_transform(source: Model, target: Model, *, T: int = 2000, seed: int = 0) -> Report:
    """Check the transformation between two models, on T readings of the source drawn with `seed`.

    Output law, causality, round trip, chunks, states and gaps; returns a report or raises
    `CheckError` with it.
    """
    T = _readings_to_use(T, source, target)
    return _report(f"{source!r} to {target!r}", _transform_checks(source, target, T, np.random.default_rng(seed)))


def _readings_to_use(T: int, *models: Model) -> int:
    """T, or as many as a model that is given for some steps only has."""
    if T < _FEWEST:
        raise ConfigurationError(f"T = {T}; checks need at least {_FEWEST} readings")
    steps: list[int | None] = [getattr(model, "steps", None) for model in models]
    return min([T, *(count for count in steps if count is not None)])


def _report(subject: str, checks: Iterator[tuple[str, Callable[[], str]]]) -> Report:
    results = []
    while True:
        name = "can be run"
        try:
            name, check = next(checks)
            results.append(Result(name, True, check()))
        except StopIteration:
            break
        except _FailedError as failed:
            results.append(Result(name, False, str(failed)))
        except Exception as error:
            # A user's model can fail in any way; the check that met it says so and the others go on.
            results.append(Result(name, False, f"{type(error).__name__}: {error}"))
    report = Report(subject, tuple(results))
    if not report.passed:
        raise CheckError(str(report))
    return report


class _FailedError(Exception):
    pass


def _require(holds: bool | np.bool_, fault: str) -> None:
    if not holds:
        raise _FailedError(fault)


# One model -----------------------------------------------------------------------------------------


def _model_checks(model: Model, T: int, rng: np.random.Generator) -> Iterator[tuple[str, Callable[[], str]]]:
    yield "has the four methods", lambda: _has_methods(model)
    z = rng.standard_normal((T, model.dim))
    Y = run(Emit(model), z)
    few = min(T, 200)
    v = SeededUniforms(rng.bytes(32)) if has_atoms(model) else None
    scoring: CausalMap = Score(model) if v is None else RandomisedScore(model, v)
    yield "start is repeatable and states are values", lambda: _states_are_values(model, Y[:few])
    if v is None:
        yield "score is increasing, triangular and agrees with logpdf", lambda: _density(model, Y[:few], rng)
        yield "value undoes score", lambda: _close(run(scoring, Y), z, 1e-7, "scores")
    else:
        yield "score fills the atom, value returns it, and logpdf is its probability", lambda: _atoms(model, Y[:few])
    yield "scores are white and normal", lambda: _white(run(whitening(model, v), Y))
    yield (
        "batch whitening = the four methods",
        lambda: _close(run(whitening(model, v), Y), run(scoring, Y), _SAME, "scores"),
    )
    yield "batch colouring = the four methods", lambda: _close(run(colouring(model), z), Y, _SAME, "readings")
    yield "log-likelihood = sum of logpdf", lambda: _likelihood(model, Y[:few])
    few = max(few, 8)
    yield from _map_checks("whitening", whitening(model, v), Y[:few], _other(model, z[:few], rng))
    yield from _map_checks("colouring", colouring(model), z[:few], _half_new(z[:few], rng))
    yield "skip is the law with the reading integrated out", lambda: _skip(model, Y[:5], 10 * T, rng)


def _half_new(z: Array, rng: np.random.Generator) -> Array:
    """The same scores up to the middle, others after it."""
    half = len(z) // 2
    return np.concatenate([z[:half], rng.standard_normal(z[half:].shape)])


def _other(model: Model, z: Array, rng: np.random.Generator) -> Array:
    """Readings that the model may give, of which the first half is that of `z`."""
    return run(Emit(model), _half_new(z, rng))


def _has_methods(model: Model) -> str:
    _require(is_model(model), "a model has dim, start, predict, update and skip")
    whole = isinstance(model.dim, (int, np.integer)) and model.dim >= 1
    _require(whole, "dim must be a whole number of at least 1")
    return f"dim = {model.dim}"


def _states_are_values(model: Model, Y: Array) -> str:
    _require(_equal(model.start(), model.start()), "start() gives different states")
    state = model.start()
    for row in _readings(Y, model.dim):
        kept = copy.deepcopy(state)
        after = model.update(state, row)
        again = model.update(copy.deepcopy(kept), row)
        model.predict(state)
        _require(_equal(state, kept), "predict or update changes the state that it is given; it must return a new one")
        _require(_equal(after, again), "update gives different states for equal arguments")
        state = after
    return f"{len(Y)} readings"


def _laws(model: Model, Y: Array, every: int = 1) -> Iterator[tuple[int, Law, Numbers]]:
    """The number of a reading, its law given those before, and the reading; of every so many of them."""
    state = model.start()
    for k, row in enumerate(_readings(Y, model.dim)):
        if k % every == 0:
            yield k + 1, model.predict(state), row
        state = model.update(state, row)


def _density(model: Model, Y: Array, rng: np.random.Generator) -> str:
    """Log p(y) = log phi(z) + sum_l log dz_l/dy_l, with dz/dy lower triangular and its diagonal positive."""
    d, worst = model.dim, 0.0
    for k, law, _ in _laws(model, Y, 10):
        y = np.reshape(law.value(0.7 * rng.standard_normal(d) if d > 1 else 0.7 * rng.standard_normal()), d)
        J, scale = np.empty((d, d)), np.empty(d)
        for j in range(d):
            # a step that is small beside the spread of the law
            up = np.reshape(law.value(_one(np.where(np.arange(d) == j, 0.5, 0.0), d)), d)
            scale[j] = max(abs(up[j] - np.reshape(law.value(_one(np.zeros(d), d)), d)[j]), 1e-300)
            step = 1e-4 * scale[j] * (np.arange(d) == j)
            J[:, j] = (_score(law, y + step, d) - _score(law, y - step, d)) / (2e-4 * scale[j])
        _require(not (np.diag(J) <= 0.0).any(), f"the score of reading {k} does not increase with the reading")
        triangular = d == 1 or not np.abs(np.triu(J, 1) * scale).max() > 1e-6
        _require(triangular, f"the score of a channel of reading {k} depends on a later channel")
        z = _score(law, y, d)
        expected = -0.5 * float(z @ z) - 0.5 * d * math.log(2.0 * math.pi) + float(np.log(np.diag(J)).sum())
        worst = max(worst, abs(float(np.sum(law.logpdf(_one(y, d)))) - expected))
        _require(worst < 1e-4, f"logpdf of reading {k} differs from the density of its score by {worst:.3g}")
    return f"within {worst:.1e}"


def _atoms(model: Model, Y: Array) -> str:
    """The scores of an atom fill an interval of its probability, and all of them lead back to it."""
    from scipy.special import ndtr

    d, worst = model.dim, 0.0
    for k, law, row in _laws(model, Y, 10):
        low, middle, high = (np.reshape(law.score(row, _one(np.full(d, v), d)), d) for v in (1e-12, 0.5, 1 - 1e-12))
        grows = not ((low > middle).any() or (middle > high).any())
        _require(grows, f"the score of reading {k} does not increase with the auxiliary uniform")
        for z in (low, middle, high):
            back, y = np.reshape(law.value(_one(z, d)), d), np.reshape(row, d)
            # a channel without atoms has one score, and rounds
            near = np.where(low < high, back == y, np.abs(back - y) <= 1e-9 * np.maximum(1.0, np.abs(y)))
            _require(near.all(), f"value(score(y, v)) of reading {k} is not y")
        if (low < high).all():  # every channel has atoms, so logpdf is a probability
            # by the tail that is smaller, where it keeps its digits
            side = np.where(middle > 0, -1.0, 1.0)
            mass = np.abs(ndtr(side * high) - ndtr(side * low))
            worst = max(worst, abs(float(np.sum(law.logpdf(row))) - float(np.log(mass).sum())))
            _require(worst < 1e-6, f"logpdf of reading {k} differs from its probability by {worst:.3g}")
    return f"within {worst:.1e}"


def _likelihood(model: Model, Y: Array) -> str:
    total = sum(float(np.sum(law.logpdf(row))) for _, law, row in _laws(model, Y))
    return _close(np.array([loglik(Y, model)]), np.array([total]), _SAME, "log-likelihood")


def _skip(model: Model, Y: Array, draws: int, rng: np.random.Generator) -> str:
    """Draw the missing reading and the one after it; the latter must have the law that skip predicts."""
    state = model.start()
    for row in _readings(Y, model.dim):
        state = model.update(state, row)
    kept = copy.deepcopy(state)
    try:
        law = model.predict(model.skip(state))
    except MissingReadingError:
        return "refused: no exact law across a missing reading"
    _require(_equal(state, kept), "skip changes the state that it is given; it must return a new one")
    now = model.predict(state)
    if law is now and model.predict(model.update(state, _readings(Y, model.dim)[-1])) is now:
        return "one law for every reading, gap or not"
    scores, atoms = np.empty((draws, model.dim)), has_atoms(model)
    for k in range(len(scores)):
        missed = now.value(_one(rng.standard_normal(model.dim), model.dim))
        after = model.predict(model.update(state, _one(missed, model.dim)))
        y = _one(after.value(_one(rng.standard_normal(model.dim), model.dim)), model.dim)
        scores[k] = law.score(y, _one(rng.random(model.dim), model.dim)) if atoms else law.score(y)
    return _white(scores)


# Maps and transformations --------------------------------------------------------------------------


def _transform_checks(
    source: Model, target: Model, T: int, rng: np.random.Generator
) -> Iterator[tuple[str, Callable[[], str]]]:
    v, w = SeededUniforms(rng.bytes(32)), SeededUniforms(rng.bytes(32))
    source, target = with_key(source, v), with_key(target, v)
    causal = transformation(source, target, False, v)
    z = rng.standard_normal((T, source.dim))
    Y = run(Emit(source), z)  # by the four methods, not by a faster path that might be wrong
    out = run(causal, Y)
    yield "output has the law of the target", lambda: _white(run(whitening(target, w), out))
    if has_atoms(target):
        yield "disguising back", lambda: "not possible: an atom of the target stands for many scores"
    else:
        used = run(whitening(source, v), Y) if has_atoms(source) else z
        yield "scores of the output = scores of the input", lambda: _close(whiten(out, target, v), used, 1e-7, "scores")
    if not has_atoms(target) and not hasattr(source, "emit"):
        back = transformation(target, source, False, v)
        yield "disguising back returns the input", lambda: _close(run(back, out), Y, 1e-7, "readings")
    few = max(8, min(T, 200))
    yield from _map_checks("the transformation", causal, Y[:few], _other(source, z[:few], rng))


def _map_checks(name: str, causal: CausalMap, Y: Array, other: Array) -> Iterator[tuple[str, Callable[[], str]]]:
    yield f"{name} is causal", lambda: _causal(causal, Y, other)
    yield f"{name}: step = chunk = whole", lambda: _chunks(causal, Y)
    yield f"{name}: a copied state continues", lambda: _resumes(causal, Y)
    yield f"{name}: missing stays missing", lambda: _missing(causal, Y)
    yield f"{name} refuses bad readings", lambda: _refuses(causal, Y)


def _causal(causal: CausalMap, Y: Array, other: Array) -> str:
    half = len(Y) // 2
    same = np.array_equal(run(causal, Y)[:half], run(causal, other)[:half])
    _require(same, "a later reading changes an earlier output")
    return f"{half} outputs before {len(Y) - half} changed readings"


def _chunks(causal: CausalMap, Y: Array) -> str:
    whole = run(causal, Y)
    state, parts = causal.start(), []
    for chunk in np.array_split(Y, sorted({1, 3, len(Y) // 2} & set(range(1, len(Y))))):
        state, part = causal.apply(state, np.ascontiguousarray(chunk))
        parts.append(part)
    _require(np.array_equal(np.concatenate(parts), whole), "chunks and the whole give different outputs")
    state, steps = causal.start(), []
    for row in _readings(Y, causal.dim):
        state, out = causal.step(state, row)
        steps.append(np.reshape(out, causal.dim))
    return _close(np.array(steps), whole, 1e-12, "outputs of step")


def _resumes(causal: CausalMap, Y: Array) -> str:
    half = len(Y) // 2
    state, first = causal.apply(causal.start(), Y[:half])
    kept = copy.deepcopy(state)
    _, second = causal.apply(state, Y[half:])
    _, again = causal.apply(kept, Y[half:])
    same = np.array_equal(second, again) and np.array_equal(np.concatenate([first, second]), run(causal, Y))
    _require(same, "a copy of the state does not continue as the original does")
    return f"after {half} readings"


def _missing(causal: CausalMap, Y: Array) -> str:
    gaps = Y.copy()
    rows = [k for k in (2, 5) if k < len(Y)] or [0]
    gaps[rows] = np.nan
    try:
        out = run(causal, gaps)
    except MissingReadingError:
        return "refused: no exact law across a missing reading"
    same = np.array_equal(np.isnan(out), np.isnan(gaps))
    _require(same, "missing readings do not stay missing, or others become so")
    return f"{len(rows)} gap{'s' if len(rows) > 1 else ''}"


def _refuses(causal: CausalMap, Y: Array) -> str:
    infinite = Y.copy()
    infinite[1, 0] = np.inf
    for bad in (infinite, Y[:, :0], np.array([["a"] * causal.dim]), np.zeros((3, causal.dim + 1, 2))):
        try:
            run(causal, bad)
        except ReadingError:
            continue
        raise _FailedError("infinite, empty, textual or wrongly shaped readings are accepted")
    return "infinite, empty, textual, wrongly shaped"


# Small things --------------------------------------------------------------------------------------


def _white(z: Array) -> str:
    result = whiteness(z)
    if result.p_value < FALSE_ALARM:
        raise _FailedError(f"{result.weakest.name} of the scores has p = {result.weakest.p_value:.3g}")
    doubt = ", suspicious: look again with a larger T and other seeds" if result.p_value < 1e-3 else ""
    return f"p = {result.p_value:.2g}{doubt}"


def _close(a: Array, b: Array, tolerance: float, what: str) -> str:
    scale = max(1.0, float(np.abs(b).max()))
    gap = float(np.abs(a - b).max()) / scale
    _require(gap <= tolerance, f"{what} differ by {gap:.3g} relative; {tolerance:g} is allowed")
    return f"within {gap:.1e}"


def _readings(Y: Array, dim: int) -> Sequence[Numbers]:
    rows = as_readings(Y, dim)
    return rows.ravel().tolist() if dim == 1 else list(rows)


def _one(value: Numbers, dim: int) -> Numbers:
    return float(np.reshape(value, ())) if dim == 1 else np.reshape(value, dim)


def _score(law: Law, y: Array, dim: int) -> Array:
    return np.reshape(law.score(_one(y, dim)), dim)


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)):
        return len(a) == len(b) and all(_equal(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_equal(a[key], b[key]) for key in a)
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return np.array_equal(a, b, equal_nan=True)
    try:
        return bool(a == b)
    except Exception:
        return a is b
