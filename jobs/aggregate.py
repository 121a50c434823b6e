"""`spark-submit --jars $(aggregator jars) jobs/aggregate.py -c FILE`: the same as `aggregator run`.

Takes the options of `aggregator run`. With `spark.master: auto` the master of the submission is
kept.
"""

import sys

from aggregator.cli.main import main

if __name__ == "__main__":
    main(["run", *sys.argv[1:]])
