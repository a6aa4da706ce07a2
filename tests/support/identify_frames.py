"""Small frames for the tests of identification, in each of the libraries."""

from __future__ import annotations

import datetime

import numpy as np

import understudy as us
from understudy.identify import resample

START = datetime.datetime(2026, 3, 2, 8, 0, 0)  # a Monday


def room(people):
    return us.GaussMarkov(A=0.9, C=1.0, Q=4.0, R=1.0, b=40.0 + 10.0 * people, mean0=400.0, cov0=9.0)


def labels(n, seed=0, values=(0, 1), stay=0.98):
    """A path that stays for about 50 rows."""
    rng = np.random.default_rng(seed)
    path = [int(rng.integers(len(values)))]
    for _ in range(n - 1):
        path.append(path[-1] if rng.random() < stay else int(rng.integers(len(values))))
    return np.array([values[k] for k in path])


def simulated(n=600, seed=0, values=(0, 1), step=None):
    """Minutes, readings and people of one room."""
    people = labels(n, seed, values)
    co2 = us.sample(us.Family(room, list(values)).along(people.tolist()), n, rng=seed + 1)
    if step is not None:
        co2 = step * np.rint(co2 / step)
    times = [START + datetime.timedelta(minutes=k) for k in range(n)]
    return {"time": times, "co2": co2, "people": people}


def as_pandas(frame):
    import pandas as pd

    return pd.DataFrame(frame)


def as_polars(frame):
    import polars as pl

    return pl.DataFrame(frame)


def as_lazy(frame):
    import polars as pl

    return pl.LazyFrame(frame)


def as_arrow(frame):
    import pyarrow as pa

    return pa.table({name: pa.array(list(column)) for name, column in frame.items()})


def as_mapping(frame):
    return dict(frame)


LIBRARIES = {"pandas": as_pandas, "polars": as_polars, "lazy": as_lazy, "pyarrow": as_arrow, "mapping": as_mapping}


def intake(frame, *, last=False, values=None, **columns):
    """A history from a frame, the parts of its columns by name."""
    return resample.intake(frame, resample.Columns(**columns), last=last, values=values)
