"""A live feed as a user submits it, in a process of its own: files in, files out, one file a micro-batch.

python spark_feed.py '{"input": ..., "out": ..., "checkpoint": ..., "marks": ..., "key": ...}'
"""

from __future__ import annotations

import json
import sys

import spark_cases as cases

import understudy as us

SCHEMA = "room string, time timestamp, co2 double, people bigint"


def begin(spark, task):
    """The query, begun or gone on with."""
    frame = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(task["input"])
    out = us.spark.disguise_stream(
        frame.withWatermark("time", task.get("watermark", "10 minutes")), cases.design(), key=task["key"], room="room",
        time="time", reading="co2", private="people", marks=task["marks"],
        options=us.spark.Options(period=60, buckets=task.get("buckets", 2), epoch=cases.DAY),
    )  # fmt: skip
    writer = (
        out.writeStream.format("parquet").option("path", task["out"]).option("checkpointLocation", task["checkpoint"])
    )
    return writer.trigger(availableNow=True).start()


def main(task):
    spark = cases.session("local[2,4]", **{"spark.sql.shuffle.partitions": "2"})
    query = begin(spark, task)
    query.awaitTermination()
    table = us.spark.spent_stream(spark, task["checkpoint"])
    spent = dict(zip(table.column("room").to_pylist(), table.column("nats").to_pylist(), strict=True))
    print(json.dumps({"spent": spent}))
    spark.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
