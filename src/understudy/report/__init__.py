"""Figures: of a design, of what adversaries get, of readings over time, and of the filter itself.

Each function draws onto the axes that it is given, or onto a figure of its own, and returns the axes; what
else a figure needs (a title, a size, a file) is the caller's. They take results, your own as well as those of
``understudy paper``, whose figures are all drawn with them. matplotlib is loaded when something is drawn, and is an
extra: ``pip install "understudy[plot]"``.

>>> import understudy as us
>>> from matplotlib.figure import Figure
>>> family = us.Family(lambda v: us.IID(us.Gaussian(v, 1.0)), values=[0, 1, 2])
>>> curve = us.frontier(family, distortion="mae", leakages=["0%", "25%", "50%", "75%", "100%"])
>>> ax = us.report.plot_frontier(curve, Figure().subplots())
>>> ax.get_xlabel(), ax.get_ylabel()
('leakage (nats)', 'mean absolute distortion')

The names load on first use.

>>> us.report.Trace("true", [100.0, 105.0]).label
'true'
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from understudy.report.figures import Bounds as Bounds
    from understudy.report.figures import ErrorCurve as ErrorCurve
    from understudy.report.figures import Line as Line
    from understudy.report.figures import Ran as Ran
    from understudy.report.figures import Stage as Stage
    from understudy.report.figures import Trace as Trace
    from understudy.report.figures import add_root_axis as add_root_axis
    from understudy.report.figures import autocorrelation as autocorrelation
    from understudy.report.figures import plot_audit as plot_audit
    from understudy.report.figures import plot_autocorrelation as plot_autocorrelation
    from understudy.report.figures import plot_bounds as plot_bounds
    from understudy.report.figures import plot_checked_frontier as plot_checked_frontier
    from understudy.report.figures import plot_costs as plot_costs
    from understudy.report.figures import plot_costs_over_time as plot_costs_over_time
    from understudy.report.figures import plot_error_ratios as plot_error_ratios
    from understudy.report.figures import plot_errors as plot_errors
    from understudy.report.figures import plot_errors_over_time as plot_errors_over_time
    from understudy.report.figures import plot_filter as plot_filter
    from understudy.report.figures import plot_frontier as plot_frontier
    from understudy.report.figures import plot_kernel as plot_kernel
    from understudy.report.figures import plot_nis as plot_nis
    from understudy.report.figures import plot_predictors as plot_predictors
    from understudy.report.figures import plot_scores as plot_scores
    from understudy.report.figures import plot_sensor as plot_sensor
    from understudy.report.figures import plot_series as plot_series
    from understudy.report.figures import plot_shares as plot_shares
    from understudy.report.figures import plot_traces as plot_traces
    from understudy.report.figures import plot_transformation as plot_transformation
    from understudy.report.figures import ran as ran
    from understudy.report.pages import audit_html as audit_html
    from understudy.report.pages import audit_report as audit_report

_NAMES = {
    "pages": "audit_html audit_report",
    "figures": "Bounds ErrorCurve Line Ran Stage Trace add_root_axis autocorrelation plot_audit plot_autocorrelation "
    "plot_bounds plot_checked_frontier plot_costs plot_costs_over_time plot_error_ratios plot_errors "
    "plot_errors_over_time plot_filter plot_frontier plot_kernel plot_nis plot_predictors plot_scores plot_sensor "
    "plot_series plot_shares plot_traces plot_transformation ran",
}
_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'understudy.report' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"understudy.report.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
