"""Are these scores independent standard normals? Several tests, each with a p-value that holds far out.

If a model is right, the scores of its readings are i.i.d. N(0, I). Each test below looks at one way
to fail: level, spread, shape, correlation in time and across channels, of the scores themselves and
of their magnitudes (which change when only the noise level is wrong). The p-values stay usable down
to 1e-6 and below, because that is the false-alarm rate at which our tests are run.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from understudy._types import Array


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
        tests.append(Evidence("serial correlation", _correlated(scores, scores, range(1, lags + 1))))
        tests.append(Evidence("serial correlation of magnitudes", _correlated(w, w, range(1, lags + 1))))
        tests.append(Evidence("scores against past magnitudes", _correlated(scores, w, range(1, lags + 1))))
    if len(flat) > 1:
        tests.append(Evidence("correlation of channels", _correlated(scores, scores, range(1))))
        tests.append(Evidence("correlation of magnitudes of channels", _correlated(w, w, range(1))))
        tests.append(Evidence("scores against magnitudes of channels", _correlated(scores, w, range(1))))
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


def _correlated(a: Array, b: Array, lags: range) -> float:
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
