"""`spark-submit --jars $(aggregator jars) jobs/maintain.py -c FILE`: as `aggregator maintain`.

Takes the options of `aggregator maintain`. With `spark.master: auto` the master of the submission
is kept.
"""

import sys

from aggregator.cli.main import main

if __name__ == "__main__":
    main(["maintain", *sys.argv[1:]])
