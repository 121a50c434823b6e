"""`aggregator` as on a machine of its own: no process that another one could see or end."""

MACHINE = (
    "-c",
    """
import os
import aggregator.store.lease.owner as owner
from aggregator.plan.lease import ProcessPlace
owner.here = lambda: ProcessPlace(f"machine-{os.getpid()}", f"boot-{os.getpid()}", "pid:[1]")
from aggregator.cli.main import main
main()
""",
)
"""With a checkpoint on an object store."""

PROGRAM = (
    "-c",
    f"""
import aggregator.store.lease.lock as lock
lock.local_path = lambda path: None
{MACHINE[1]}
""",
)
"""The same, and no OS lock: as with an object store. The checkpoint table is a real one on a local
disk; what a local path has beside it is left out."""
