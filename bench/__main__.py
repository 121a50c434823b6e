"""`python -m bench throughput|latency|all`: run the benchmark and write its two result files."""

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
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from aggregator import __version__
from aggregator.errors import AggregatorError
from aggregator.jars import jars, java_command
from aggregator.jars.lock import jars_of
from bench.measure import OURS, THEIRS, Result, Run, to_json, to_markdown
from bench.rounds import Bench, Options
from bench.tools import described

BENCHMARKS = {"throughput": ["throughput"], "latency": ["latency"]}
BENCHMARKS["all"] = ["throughput", "latency"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; 0 when every run did what it should, 1 when one failed, 130 after Ctrl-C."""
    given = _parser().parse_args(arguments)
    options = Options(
        records=given.records,
        size=given.size,
        rounds=given.rounds,
        latency_rounds=given.latency_rounds,
        rate=given.rate,
        seconds=given.seconds,
        warm_up=given.warm_up,
    )
    # SIGTERM unwinds as Ctrl-C does, so that everything is ended.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.setswitchinterval(0.0005)  # The load must not hold the reader up, nor the other way round.
    began = time.monotonic()

    def tell(line: str) -> None:
        print(f"[{time.monotonic() - began:4.0f} s] {line}", file=sys.stderr, flush=True)

    runs: list[Run] = []
    try:
        for name in ("broker", "spark", "mirror"):
            jars(name, progress=tell)
        with Bench(options, tell) as bench:
            for benchmark in BENCHMARKS[given.benchmark]:
                runs += bench.run(benchmark)
    except KeyboardInterrupt:
        tell("interrupted: nothing is written")
        return 130
    except (AggregatorError, ValueError) as error:
        tell(f"error: {error}")
        return 1
    for path in write(_result(options, runs), given.out):
        tell(f"written: {path}")
    return int(any(run.failure for run in runs))


def write(result: Result, folder: Path) -> list[Path]:
    """Write both files; a second result of the same day gets a number, and none is overwritten."""
    folder.mkdir(parents=True, exist_ok=True)
    name, number = f"bench-{result.date}", 1
    while (folder / f"{name}.md").exists() or (folder / f"{name}.json").exists():
        number += 1
        name = f"bench-{result.date}-{number}"
    paths = [folder / f"{name}.md", folder / f"{name}.json"]
    for path, text in zip(paths, (to_markdown(result), to_json(result)), strict=True):
        path.write_text(text, "utf-8")
    return paths


def _parser() -> argparse.ArgumentParser:
    default = Options()
    parser = argparse.ArgumentParser(
        prog="python -m bench", description="The same records through both tools, in turn."
    )
    parser.add_argument("benchmark", choices=BENCHMARKS)
    parser.add_argument("--records", type=int, default=default.records, help="per source")
    parser.add_argument("--size", type=int, default=default.size, help="bytes of a value")
    parser.add_argument("--rounds", type=int, default=default.rounds, help="of throughput")
    parser.add_argument("--latency-rounds", type=int, default=default.latency_rounds)
    parser.add_argument("--rate", type=float, default=default.rate, help="records/s in all")
    parser.add_argument("--seconds", type=float, default=default.seconds, help="of measuring")
    parser.add_argument("--warm-up", type=float, default=default.warm_up, help="seconds before it")
    parser.add_argument("--out", type=Path, default=Path("docs/results"), help="folder")
    return parser


def _result(options: Options, runs: Sequence[Run]) -> Result:
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
        options=asdict(options),
        settings=described(),
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
