"""`spark-submit --jars $(aggregator jars) jobs/backfill.py -c FILE --source A --topic T`.

Takes the options of `aggregator backfill` and ends when the range is in the hub. A running instance
does it where there is one, else this job, and nothing else.
"""

import sys

from aggregator.cli.main import main

if __name__ == "__main__":
    main(["backfill", "--wait", *sys.argv[1:]])
