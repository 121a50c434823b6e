"""`python second_attempt.py SERVERS PLAIN GUARDED`: a task that Spark tries again.

Writes 100 records into PLAIN, then into GUARDED with the project's interceptor; the first attempt
of each task fails before it has written anything. Prints the words of the last failure.
"""

import sys

from pyspark import SparkConf, TaskContext
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from aggregator.stream.driver import spark_jars
from aggregator.stream.interceptor import CLASS_NAME

RECORDS = 100


def fail_at_first(number: int) -> bytes:
    """The value of a record; fails in the first attempt of the task."""
    context = TaskContext.get()
    assert context is not None
    if context.attemptNumber() == 0:
        raise RuntimeError("the first attempt")
    return b"%d" % number


def main(servers: str, plain: str, guarded: str) -> None:
    """Write both topics."""
    paths = spark_jars(None, print)
    conf = SparkConf().setMaster("local[2,4]").set("spark.ui.enabled", "false")
    conf = conf.set("spark.jars", ",".join(map(str, paths)))
    spark = SparkSession.builder.config(conf=conf).getOrCreate()
    value = F.udf(fail_at_first, "binary")
    rows = spark.range(0, RECORDS, 1, 1).select(value("id").alias("value"))
    sink = {"kafka.bootstrap.servers": servers}
    rows.write.format("kafka").options(**sink, topic=plain).save()
    sink["kafka.interceptor.classes"] = CLASS_NAME
    try:
        rows.write.format("kafka").options(**sink, topic=guarded).save()
    except Exception as error:
        sys.stdout.write(f"failed: {error}\n")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
