"""`python -m bench.profile WORK...`: where this project's CPU goes, by thread and by kind of work.

One run of each work, by this project alone, under Java's own flight recorder. The threads of all
its processes are counted by Linux, so what no recorder sees (collector, compiler, librdkafka) is in
it. What counts is the time in which records flow; of an idle work its last seconds.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from aggregator.datapath.jars import java_command
from aggregator.plan.lanes.memory import DEFAULT_HEAP, HEAP
from bench.bed import Bed, Progress
from bench.job import Job
from bench.measure import OURS
from bench.ours import settings as ours_settings
from bench.rounds import run_one
from bench.tools import TOOLS
from bench.usage import members
from bench.works import WORKS, Kind, Work

PERIOD_SECONDS = 0.25
SENDS = re.compile(r"aggregator\.connector\.(RecordSender\.|HubBatches\.)")
"""While such frames are sampled, records flow."""
CPU_TIME = "jdk.CPUTimeSample#enabled=true,jdk.CPUTimeSample#throttle=10ms"
"""Java 25 on Linux samples a thread for each 10 ms of CPU that it takes, in native code as well.
An older one takes a look at five threads in Java and one in native code: it says too little of
compression and sockets. It ignores these words."""
JAVA_OPTIONS = "spark.driver.extraJavaOptions"

THREADS = (
    (r"Executor task", "tasks: read, tag, hand over"),
    (r"kafka-producer", "producers: requests to the hub"),
    (r"GC |G1 |Parallel", "Java's collector"),
    (r"C[12] Comp|Sweeper", "Java's compiler"),
    (r"aggregator-", "reports to the driver"),
    (r"rdk:|rd_", "Python: librdkafka (probes)"),
    (r"python|aggregator$|Thread-|probe|look", "Python: turns, probes, commits"),
)
"""Threads by the beginning of their name, of which Linux keeps fifteen letters."""
OTHER_THREADS = "Spark and the rest of Java"

AREAS = (
    (r"net\.jpountz|luben\.zstd|xerial|java\.util\.zip\.(Inf|Def|GZ)", "compression"),
    (r"java\.util\.zip\.C|utils\.Crc|Checksum", "checksums"),
    (r"sun\.nio\.ch|java\.net\.|java\.nio\.channels", "network"),
    (r"aggregator\.connector", "the connector's own lines"),
    (r"kafka\.common\.record|kafka\.common\.header|kafka\.common\.utils", "record format"),
    (r"kafka\.clients\.consumer", "consumer"),
    (r"kafka\.clients\.producer", "producer"),
    (r"org\.apache\.kafka", "other Kafka client code"),
    (r"org\.apache\.spark|scala\.|catalyst", "Spark"),
)
OTHER_AREAS = "other"
WAITS = re.compile(r"\.(poll|wait|epollWait|park|accept0?)$")
"""Innermost frames of a thread that waits in native code, which the recorder takes for work."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One look of the recorder: when (seconds since 1970), and frames, innermost first."""

    at: float
    frames: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Used:
    """What a thread has used since it began: CPU ticks, and how often it was put on a core."""

    ticks: int
    wakes: int = 0


Threads = Mapping[tuple[int, int, str], Used]
"""By process, thread and name."""
WAKERS = 15
"""As many names of threads are listed, those that wake most first."""


NOTHING = Used(0)


def thread_kind(name: str) -> str:
    """What a thread is there for."""
    return next((kind for form, kind in THREADS if re.search(form, name)), OTHER_THREADS)


def area_of(frames: Sequence[str]) -> str:
    """What kind of work a sample is: of the innermost frame that says so."""
    for frame in frames:
        for form, area in AREAS:
            if re.search(form, frame):
                return area
    return OTHER_AREAS


def by_area(samples: Sequence[Sample]) -> Counter[str]:
    """Samples by kind of work."""
    return Counter(area_of(it.frames) for it in samples if not WAITS.search(it.frames[0]))


def by_thread(before: Threads, after: Threads) -> dict[str, float]:
    """CPU seconds by kind of thread, between two looks."""
    hertz = os.sysconf("SC_CLK_TCK")
    found: defaultdict[str, float] = defaultdict(float)
    for key, used in after.items():
        found[thread_kind(key[2])] += (used.ticks - before.get(key, NOTHING).ticks) / hertz
    return dict(found)


def wakes_by_name(before: Threads, after: Threads) -> Counter[str]:
    """How often threads woke between two looks, by their names without a number at the end."""
    found: Counter[str] = Counter()
    for key, used in after.items():
        found[re.sub(r"[-# ]*\d+$", "", key[2])] += used.wakes - before.get(key, NOTHING).wakes
    return found


def parse(text: str) -> list[Sample]:
    """What `Samples.java` prints."""
    lines = [line.split("\t") for line in text.splitlines()]
    return [Sample(int(at) / 1000, tuple(frames)) for at, _, *frames in lines]


class Watch(threading.Thread):
    """Notes the CPU of each thread of the tool, from its start until it is gone."""

    def __init__(self, folder: Path) -> None:
        super().__init__(name="bench-watch", daemon=True)
        self._folder = folder
        self.looks: list[tuple[float, Threads]] = []

    def run(self) -> None:
        """Look until the tool was there and is gone."""
        while True:
            group = self._group()
            if group is not None:
                self.looks.append((time.time(), _threads(group)))
            elif self.looks:
                return
            time.sleep(PERIOD_SECONDS)

    def at(self, when: float) -> Threads:
        """The look that is nearest to a moment."""
        return min(self.looks, key=lambda it: abs(it[0] - when))[1]

    def _group(self) -> int | None:
        file = os.fsencode(self._folder / "aggregator.yaml")
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = path.read_bytes().split(b"\0")
            except OSError:
                continue
            # The process that guards it has the same words behind others.
            if words[1:3] == [b"-m", b"aggregator"] and file in words:
                return os.getpgid(int(path.parent.name))
        return None


def _threads(group: int) -> Threads:
    found = {}
    for pid in members(group):
        for path in Path(f"/proc/{pid}/task").glob("*/stat"):
            try:
                name, _, rest = path.read_text().partition("(")[2].rpartition(")")
                slices = path.with_name("schedstat").read_text().split()
            except OSError:
                continue
            fields = rest.split()
            ticks = int(fields[11]) + int(fields[12])
            found[pid, int(path.parent.name), name] = Used(ticks, int(slices[2]))
    return found


def profile(work: Work, folder: Path, progress: Progress) -> str:
    """The tables of one work, as Markdown. ValueError when the run was not perfect."""
    recording = folder / f"{work.name}.jfr"

    recorder = f"-XX:StartFlightRecording=filename={recording},settings=profile,{CPU_TIME}"

    def command(job: Job) -> list[str]:
        settings = {
            **ours_settings(job),
            "spark": {"conf": {HEAP: DEFAULT_HEAP, JAVA_OPTIONS: recorder}},
        }
        file = job.folder / "aggregator.yaml"
        file.write_text(yaml.safe_dump(settings), "utf-8")
        return [sys.executable, "-m", "aggregator", "run", "-c", str(file)]

    with Bed(work, progress) as bed:
        watches: list[Watch] = []

        def watched(job: Job) -> list[str]:
            watches.append(Watch(job.folder))
            watches[-1].start()
            return command(job)

        run = run_one(bed, replace(TOOLS[OURS], command=watched), 1, progress)
    if run.failure or not watches:
        raise ValueError(f"{work.name}: {run.failure}")
    (watch,) = watches
    watch.join()
    program = Path(__file__).with_name("Samples.java")
    printed = subprocess.run(
        [java_command(), str(program), str(recording)], capture_output=True, text=True, check=True
    )
    samples = parse(printed.stdout)
    begin, end = _window(work, samples, watch)
    within = [it for it in samples if begin <= it.at <= end]
    looks = watch.at(begin), watch.at(end)
    return _page(work, run.values, end - begin, looks, within)


def _window(work: Work, samples: Sequence[Sample], watch: Watch) -> tuple[float, float]:
    """From when to when counts, in seconds since 1970."""
    if work.kind is Kind.IDLE:
        end = watch.looks[-1][0] - 5
        return end - work.seconds, end
    sends = [it.at for it in samples if any(SENDS.match(frame) for frame in it.frames)]
    if not sends:
        raise ValueError(f"{work.name}: the recorder has seen no record sent")
    end = max(sends)
    return (end - work.seconds if work.kind is Kind.FLOW else min(sends)), end


def _page(
    work: Work,
    values: Mapping[str, float],
    seconds: float,
    looks: tuple[Threads, Threads],
    samples: Sequence[Sample],
) -> str:
    threads = by_thread(*looks)
    whole = sum(threads.values())
    lines = [f"## {work.name}", "", f"{work.says[0].upper()}{work.says[1:]}.", ""]
    lines += [f"- {name}: {value:,.1f}" for name, value in sorted(values.items())]
    lines += ["", f"| CPU by thread, in {seconds:.0f} s | s | % of a core | share |"]
    lines += ["|---|---|---|---|"]
    for name, spent in sorted(threads.items(), key=lambda it: -it[1]):
        share = f"{spent:.1f} | {100 * spent / seconds:.1f} | {100 * spent / whole:.0f} %"
        lines.append(f"| {name} | {share} |")
    counts = by_area(samples)
    lines += ["", "| samples of Java's threads by the work they were at | share |", "|---|---|"]
    for name, count in counts.most_common():
        lines.append(f"| {name} | {100 * count / counts.total():.0f} % |")
    lines += ["", "| threads by name, those that wake most first | wakes a second |", "|---|---|"]
    for name, wakes in wakes_by_name(*looks).most_common(WAKERS):
        lines.append(f"| {name} | {wakes / seconds:.1f} |")
    return "\n".join([*lines, ""])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; prints the tables. 0 when every run was perfect."""
    parser = argparse.ArgumentParser(prog="python -m bench.profile", description=__doc__)
    parser.add_argument("works", nargs="+", choices=sorted(WORKS), metavar="WORK")
    parser.add_argument("--seconds", type=float, help="of measuring")
    parser.add_argument("--warm-up", type=float, help="seconds before it")
    parser.add_argument("--keep", type=Path, required=True, help="folder for the recordings")
    given = parser.parse_args(arguments)
    given.keep.mkdir(parents=True, exist_ok=True)

    def progress(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    for name in given.works:
        work = WORKS[name]
        work = replace(
            work, seconds=given.seconds or work.seconds, warm_up=given.warm_up or work.warm_up
        )
        print(profile(work, given.keep, progress), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
