"""`spark-submit --jars $(aggregator jars) jobs/tee.py -c FILE`: the same as `aggregator tee`.

Takes the options of `aggregator tee`. With `spark.master: auto` the master of the submission is
kept.
"""

import sys

from aggregator.cli.main import main

if __name__ == "__main__":
    main(["tee", *sys.argv[1:]])
