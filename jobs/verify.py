"""`spark-submit --jars $(aggregator jars) jobs/verify.py -c FILE`: the same as `aggregator verify`.

Takes the options of `aggregator verify`. With `spark.master: auto` the master of the submission is
kept.
"""

import sys

from aggregator.cli.main import main

if __name__ == "__main__":
    main(["verify", *sys.argv[1:]])
