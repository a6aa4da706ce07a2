"""Spark: a million rooms on a cluster; a history in one job, and a live feed in another (`docs/spark.md`)."""

from understudy.spark.batch import Options, disguise
from understudy.spark.marks import Run, runs, spent

__all__ = ["Options", "Run", "disguise", "runs", "spent"]
