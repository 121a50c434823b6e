"""`python -m bench WORK...`: run works through the tools and write the two result files."""

from __future__ import annotations

import argparse
import os
import platform
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from aggregator import __version__
from aggregator.datapath.jars import cache_folder, jars, java_command, spark_java_home
from aggregator.datapath.jars.lockfile import jars_of
from aggregator.datapath.spark.class_archive import class_archive
from aggregator.datapath.spark.jvm import spark_jars
from aggregator.model.errors import AggregatorError
from bench.files import RAW, new_files, write
from bench.measure import OURS, THEIRS, Run
from bench.report import Result
from bench.rounds import run_works
from bench.tools import described
from bench.works import GROUPS, WORKS, Work, chosen

OPTIONS = {
    "records": (int, "per source"),
    "rounds": (int, "of each work"),
    "rate": (float, "records/s in all"),
    "seconds": (float, "of measuring"),
    "warm_up": (float, "seconds before it"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; 0 when every run did what it should, 1 when one failed, 130 after Ctrl-C."""
    given = _parser().parse_args(arguments)
    # SIGTERM unwinds as Ctrl-C does, so that everything is ended.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.setswitchinterval(0.0005)  # The load must not hold the reader up, nor the other way round.
    began = time.monotonic()

    def progress(line: str) -> None:
        print(f"[{time.monotonic() - began:4.0f} s] {line}", file=sys.stderr, flush=True)

    runs: list[Run] = []
    try:
        works = chosen(given.works, **{name: getattr(given, name) for name in OPTIONS})
        for name in ("broker", "spark", "mirror"):
            jars(name, progress=progress)
        # Part of an installation, as the jars are: no run pays for it.
        class_archive(cache_folder(), spark_java_home(), spark_jars(None, progress), progress)
        paths = new_files(given.out, given.raw, datetime.now(UTC).date().isoformat())
        for run in run_works(works, progress):
            runs.append(run)
            # After each run: what is measured is not lost when the rest is.
            write(_result(works, runs), paths)
    except KeyboardInterrupt:
        progress("interrupted")
        return 130
    except (AggregatorError, ValueError) as error:
        progress(f"error: {error}")
        return 1
    for path in paths:
        progress(f"written: {path}")
    return int(any(run.failure for run in runs))


def _parser() -> argparse.ArgumentParser:
    lines = [f"  {name:22}{work.says}" for name, work in WORKS.items()]
    lines += [f"  {name:22}{', '.join(names)}" for name, names in GROUPS.items() if name != "all"]
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="The same records through this project and others, in turn.",
        epilog="\n".join(["works:", *lines]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("works", nargs="*", default=["all"], metavar="WORK", help="default: all")
    for name, (kind, words) in OPTIONS.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=kind, help=words)
    parser.add_argument("--out", type=Path, default=Path("docs/results"), help="folder of the page")
    parser.add_argument("--raw", type=Path, default=RAW, help="folder of the raw figures, as JSON")
    return parser


def _result(works: Sequence[Work], runs: Sequence[Run]) -> Result:
    (mirror,) = [jar for jar in jars_of("mirror") if jar.name == "connect-mirror"]
    (broker,) = [jar for jar in jars_of("broker") if jar.name == "kafka_2.13"]
    return Result(
        date=datetime.now(UTC).date().isoformat(),
        machine=_machine(),
        versions={
            OURS: f"{__version__} on pyspark {version('pyspark')}",
            THEIRS: mirror.version,
            "Kafka brokers": broker.version,
        },
        works=works,
        settings={work.name: described(work) for work in works},
        runs=runs,
    )


def _machine() -> dict[str, object]:
    """What the figures depend on, without anything that names the machine."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    java = subprocess.run([java_command(), "-version"], capture_output=True, text=True, check=True)
    found = re.search(r'version "([^"]+)"', java.stderr + java.stdout)
    return {
        "cores": os.cpu_count(),
        "memory": f"{memory:.0f} GiB",
        "Java": found[1] if found else "unknown",
        "Python": platform.python_version(),
        "kernel": f"{platform.system()} {'.'.join(platform.release().split('.')[:2])}",
    }


if __name__ == "__main__":
    sys.exit(main())
