"""`aggregator` as on a machine of its own, with an object store: no OS lock, no process in common.

The checkpoint table is a real one on a local disk; what a local path has beside it is left out.
"""

PROGRAM = (
    "-c",
    """
import os
import aggregator.writing.lock as lock
import aggregator.checkpoint.owner as owner
from aggregator.writing.core import ProcessPlace
lock.local_path = lambda path: None
owner.here = lambda: ProcessPlace(f"machine-{os.getpid()}", f"boot-{os.getpid()}", "pid:[1]")
from aggregator.cli.main import main
main()
""",
)
