"""Figures of a design: the trade-off, the randomizer, the costs.

Each function draws onto the axes that it is given, or onto a figure of its own, and returns the axes; what
else a figure needs (a title, a size, a file) is the caller's. matplotlib is loaded when something is drawn, and is
an extra: ``pip install "understudy[plot]"``.

>>> import understudy as us
>>> from matplotlib.figure import Figure
>>> family = us.Family(lambda v: us.IID(us.Gaussian(v, 1.0)), values=[0, 1, 2])
>>> curve = us.frontier(family, distortion="mae", leakages=["0%", "25%", "50%", "75%", "100%"])
>>> ax = us.report.plot_frontier(curve, Figure().subplots())
>>> ax.get_xlabel(), ax.get_ylabel()
('leakage (nats)', 'mean absolute distortion')
"""

from understudy.report.curves import plot_frontier
from understudy.report.maps import plot_costs, plot_kernel

__all__ = ["plot_costs", "plot_frontier", "plot_kernel"]
