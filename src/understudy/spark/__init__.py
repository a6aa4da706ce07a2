"""Spark: a million rooms on a cluster; a history in one job, and a live feed in another (`docs/spark.md`)."""

from understudy.spark.batch import Options, disguise
from understudy.spark.marks import Run, runs, spent
from understudy.spark.streaming import disguise_stream, spent_stream

__all__ = ["Options", "Run", "disguise", "disguise_stream", "runs", "spent", "spent_stream"]
