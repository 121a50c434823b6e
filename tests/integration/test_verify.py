"""`aggregator verify` on real clusters: it finds each defect, and nothing where all is well."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from aggregator.config.render import to_yaml
from aggregator.config.schema import Config
from aggregator.extras.embedded.cluster import EmbeddedCluster
from aggregator.extras.embedded.topics import NewRecord, create_topic, delete_topic, produce
from aggregator.features.verify import audit_inputs
from aggregator.features.verify.audit import StoppedError, VerifyRequest, verify
from aggregator.features.verify.audit_report import VerifyReport
from aggregator.features.verify.audit_scope import Scope
from aggregator.features.verify.audit_table import record as record_audit
from aggregator.model.errors import EXIT_CLUSTER, EXIT_DATA, EXIT_DONE, EXIT_OTHER
from support.changing import delete_records
from support.crashed import with_origin, write_again
from support.forked import ForkedProcess
from support.load import load
from support.reading import Origin, Record, read_topic, wait_for, wait_until_topic_has
from support.running import catch_up, make_config, run_in_background, source
from support.sessions import running_session
from support.verdict import judge

ALL = 10_000
"""As many examples as there can be."""
BEGAN_MS = time.time_ns() // 1_000_000 - 3_600_000
RECORDS = 600
Spot = tuple[str, int, int]
"""(source, partition, offset)."""


@dataclass
class Copied:
    """Topics that were copied once, by a run with a checkpoint."""

    eu: EmbeddedCluster
    us: EmbeddedCluster
    hub: EmbeddedCluster
    topic: str
    remade: str
    config: Config
    sources: dict[str, list[Record]]
    whole: list[Record]

    def torn(self, name: str, records: list[Record], partitions: int = 3, **options: str) -> str:
        """A hub topic that holds these records; returns what to rename to."""
        rename = f"${{topic}}.{name}"
        topic = f"{self.topic}.{name}"
        create_topic(self.hub.bootstrap_servers, topic, partitions=partitions, config=options)
        write_again(self.hub, topic, records)
        return rename

    def without_checkpoint(self, folder: Path, rename: str, **sources: Any) -> Config:
        aliases = {"eu": source(self.eu, self.topic), "us": source(self.us, self.topic)}
        return make_config(
            self.hub,
            folder / "none",
            {**aliases, **sources},
            topics={"rename": rename, "partitions": 3},
            supervision={"connect_timeout": "3s"},
        )


@pytest.fixture(scope="module")
def copied(
    source_a: EmbeddedCluster,
    source_b: EmbeddedCluster,
    hub: EmbeddedCluster,
    tmp_path_factory: pytest.TempPathFactory,
) -> Copied:
    topic = f"verify-{uuid.uuid4().hex[:8]}"
    remade = f"remade-{topic}"
    clusters = {"eu": source_a, "us": source_b}
    for alias, cluster in clusters.items():
        create_topic(cluster.bootstrap_servers, topic, partitions=2)
        produce(cluster.bootstrap_servers, topic, [odd(alias, n) for n in range(RECORDS)])
    create_topic(source_a.bootstrap_servers, remade)
    produce(source_a.bootstrap_servers, remade, [NewRecord(b"before")] * 20)
    # One of these has no key, so the hub refuses it.
    refused = f"refused-{topic}"
    create_topic(source_a.bootstrap_servers, refused)
    keys = [b"a", b"b", None, b"c"]
    produce(source_a.bootstrap_servers, refused, [NewRecord(b"v", key) for key in keys])
    create_topic(hub.bootstrap_servers, f"{refused}.whole", config={"cleanup.policy": "compact"})
    config = make_config(
        hub,
        tmp_path_factory.mktemp("verify") / "state",
        {"eu": source(source_a, f".*{topic}"), "us": source(source_b, topic)},
        topics={"partitions": 3, "rename": "${topic}.whole"},
        api={"listen": "off"},
    )
    assert catch_up(config).exit_code == EXIT_DONE
    return Copied(
        source_a,
        source_b,
        hub,
        topic,
        remade,
        config,
        {alias: read_topic(it.bootstrap_servers, topic) for alias, it in clusters.items()},
        read_topic(hub.bootstrap_servers, f"{topic}.whole"),
    )


@pytest.fixture(scope="module")
def session(copied: Copied) -> Iterator[SparkSession]:
    """A session after the run's: a JVM has one at a time."""
    with running_session() as spark:
        yield spark


def odd(alias: str, number: int) -> NewRecord:
    """A record a second; with two headers, with one that is null, or with none."""
    headers: list[list[tuple[str, bytes | None]]] = [
        [("a", b"1"), ("b", b"%d" % number)],
        [("n", None), ("a", b"1")],
        [],
    ]
    return NewRecord(
        None if number % 50 == 7 else f"{alias} {number}".encode(),
        b"key-%d" % (number % 97),
        headers=headers[number % 3],
        timestamp=BEGAN_MS + 1000 * number,
    )


def found(report: VerifyReport, kind: str) -> set[Spot]:
    """The source records of the findings of a kind."""
    return {
        (it.cluster or "", it.partition if it.partition is not None else -1, it.offset or 0)
        for it in report.findings
        if it.kind == kind
    }


def spot(record: Record) -> Spot:
    origin = record.origin
    return (origin.cluster, origin.partition, origin.offset)


def test_a_clean_copy_is_well_and_every_record_was_looked_at(
    copied: Copied, session: SparkSession
) -> None:
    # It must say nothing of what no commit has covered yet.
    produce(copied.us.bootstrap_servers, copied.topic, [NewRecord(b"later", b"k")] * 5)
    report = verify(copied.config, VerifyRequest(Scope()), spark=session)
    assert report.exit_code == EXIT_DONE, report.findings
    totals = report.totals
    assert (totals.present, totals.accounted) == (2 * RECORDS + 20 + 3, 1)
    assert totals.expected == totals.present + totals.accounted
    assert report.commit is not None
    rows = {(it.cluster, it.topic, it.partition): it for it in report.partitions}
    assert len(rows) == 6
    for (cluster, topic, partition), row in rows.items():
        ours = [r for r in copied.sources[cluster] if r.partition == partition]
        if topic == copied.topic:
            assert (row.from_offset, row.to_offset, row.present) == (0, len(ours), len(ours))
    record_audit(copied.config, report)
    audits = DeltaTable(f"{copied.config.checkpoint.path}/audits").to_pyarrow_table().to_pylist()
    assert {row["audit"] for row in audits} == {report.audit}
    assert sum(row["present"] or 0 for row in audits) == totals.present
    assert sorted(row["kind"] for row in audits) == ["hub_topic"] * 3 + ["partition"] * 6


@dataclass
class Spoiled:
    """A hub with defects, and what they are."""

    records: list[Record]
    missing: set[Spot] = field(default_factory=set)
    twice: set[Spot] = field(default_factory=set)
    altered: dict[Spot, str] = field(default_factory=dict)
    late: set[Spot] = field(default_factory=set)
    foreign: list[str] = field(default_factory=list)

    def take(self, cluster: str, partition: int, offset: int) -> Record:
        wanted = (cluster, partition, offset)
        return next(it for it in self.records if spot(it) == wanted)

    def drop(self, *wanted: Spot) -> None:
        for each in wanted:
            self.records.remove(self.take(*each))
            self.missing.add(each)

    def double(self, *wanted: Spot) -> None:
        for each in wanted:
            self.records.append(self.take(*each))
            self.twice.add(each)

    def alter(self, record: Record, part: str, **changes: Any) -> None:
        self.records[self.records.index(record)] = record._replace(**changes)
        self.altered[spot(record)] = part

    def delay(self, record: Record) -> None:
        """Put a record behind the next one of its flow."""
        at = self.records.index(record)
        flow = (*spot(record)[:2], record.partition)
        behind = next(
            index
            for index, it in enumerate(self.records)
            if index > at and (*spot(it)[:2], it.partition) == flow
        )
        self.records.insert(behind, self.records.pop(at))
        self.late.add(spot(record))

    def forge(self, topic: str) -> None:
        plain = Record(topic, 1, 0, BEGAN_MS, b"k", b"foreign")
        self.records += [plain, plain._replace(partition=2, headers=(("a", b"1"),))]
        self.foreign += ["has no origin"] * 2
        for claim in (
            Origin("eu", topic, 0, 10_000_000, BEGAN_MS),
            Origin("asia", topic, 0, 1, BEGAN_MS),
            Origin("eu", topic, 77, 1, BEGAN_MS),
        ):
            claimed = plain._replace(topic=claim.topic, partition=claim.partition)
            tagged = with_origin(claimed._replace(offset=claim.offset), claim.cluster)
            self.records.append(tagged._replace(partition=0))
            known = claim.partition == 0 and claim.cluster == "eu"
            self.foreign.append(
                "its origin has no such record, or none that is copied"
                if known
                else "its origin is no partition of this config"
            )


def spoil(copied: Copied) -> Spoiled:
    it = Spoiled(list(copied.whole))
    ours = [record for record in copied.sources["eu"] if record.partition == 0]
    it.drop(("eu", 0, 0), ("eu", 0, len(ours) // 2), ("eu", 0, len(ours) - 1), ("us", 1, 5))
    it.double(("eu", 1, 3), ("us", 0, 0), ("us", 0, 8))
    # By origin: how the sources follow each other in the hub is another each time.
    free = sorted((r for r in copied.whole if spot(r) not in it.missing | it.twice), key=spot)
    pairs: list[Record] = []
    nulls: list[Record] = []
    neither: list[Record] = []
    for record in free:
        names = [name for name, _ in record.own_headers]
        (pairs if names == ["a", "b"] else nulls if names == ["n", "a"] else neither).append(record)
    it.alter(pairs[0], "key", key=b"another")
    it.alter(pairs[1], "key", key=None)
    it.alter(pairs[2], "value", value=b"another")
    it.alter(pairs[3], "value", value=None if pairs[3].value is not None else b"")
    a, b, *origin = pairs[4].headers
    it.alter(pairs[4], "headers", headers=(b, a, *origin))
    _, a, *origin = nulls[0].headers
    it.alter(nulls[0], "headers", headers=(("n", b""), a, *origin))
    it.alter(pairs[5], "timestamp", timestamp=pairs[5].timestamp + 1)
    it.alter(pairs[6], "key, value", key=b"x", value=b"y")
    # Of three source partitions, and far from the end of each.
    for record in (pairs[20], pairs[120], nulls[230]):
        it.delay(record)
    it.forge(copied.topic)
    return it


@pytest.mark.timeout(900)
def test_each_defect_is_found_and_an_independent_reader_agrees(
    copied: Copied, session: SparkSession, tmp_path: Path
) -> None:
    spoiled = spoil(copied)
    rename = copied.torn("torn", spoiled.records)
    config = copied.without_checkpoint(tmp_path, rename)
    sources = {
        alias: read_topic(it.bootstrap_servers, copied.topic)
        for alias, it in {"eu": copied.eu, "us": copied.us}.items()
    }
    # Without a checkpoint all that the sources hold is expected.
    later = {
        (alias, r.partition, r.offset)
        for alias, records in sources.items()
        for r in records[:]
        if r not in copied.sources[alias]
    }
    report = verify(config, VerifyRequest(Scope(), examples=ALL), spark=session)
    assert report.exit_code == EXIT_DATA
    assert found(report, "missing") == spoiled.missing | later
    assert found(report, "twice") == spoiled.twice
    assert found(report, "out_of_order") == spoiled.late
    altered = {
        (it.cluster or "", it.partition or 0, it.offset or 0): it.detail
        for it in report.findings
        if it.kind == "altered"
    }
    assert altered == spoiled.altered
    foreign = [it for it in report.findings if it.kind == "foreign"]
    assert sorted(it.detail for it in foreign) == sorted(spoiled.foreign)
    totals = report.totals
    assert (totals.missing, totals.twice) == (len(spoiled.missing | later), len(spoiled.twice))
    assert (totals.altered, totals.out_of_order) == (len(spoiled.altered), len(spoiled.late))
    assert totals.foreign == len(spoiled.foreign)
    # A finding says where it lies.
    torn = read_topic(copied.hub.bootstrap_servers, f"{copied.topic}.torn")
    at = {(it.partition, it.offset): it for it in torn}
    for finding in report.findings:
        if finding.kind in ("altered", "out_of_order", "twice"):
            assert finding.hub_partition is not None and finding.hub_offset is not None
            lies = at[finding.hub_partition, finding.hub_offset]
            assert spot(lies) == (finding.cluster, finding.partition, finding.offset)
    # The reader that shares no code with it.
    verdict = judge(sources, [it for it in torn if len(it.headers) >= 5])
    assert set(verdict.missing) == found(report, "missing")
    assert set(verdict.duplicated) == found(report, "twice")
    assert set(verdict.out_of_order) == found(report, "out_of_order")
    assert {spot(hub) for _, hub in verdict.altered} == altered.keys()
    assert len(verdict.unexpected) + 2 == totals.foreign

    # A range judges what is in it, and nothing else.
    some = Scope("eu", copied.topic, 0, from_offset=10, to_offset=200)
    report = verify(config, VerifyRequest(some, examples=ALL), spark=session)
    inside = {each for each in spoiled.missing if each[:2] == ("eu", 0) and 10 <= each[2] < 200}
    assert found(report, "missing") == inside and inside
    assert report.totals.expected == 190
    times = {
        (alias, r.partition, r.offset): r.timestamp for alias in sources for r in sources[alias]
    }
    since, until = BEGAN_MS + 100_000, BEGAN_MS + 400_000
    report = verify(
        config, VerifyRequest(Scope(since_ms=since, until_ms=until), examples=ALL), spark=session
    )
    assert found(report, "missing") == {
        each for each in spoiled.missing if since <= times[each] < until
    }
    assert found(report, "altered") == {each for each in altered if since <= times[each] < until}
    assert report.totals.expected == sum(since <= time < until for time in times.values())


def test_what_the_hub_has_deleted_is_expired_and_a_hole_behind_it_is_missing(
    copied: Copied, session: SparkSession, tmp_path: Path
) -> None:
    ours = [it for it in copied.sources["eu"] if it.partition == 0]
    kept = [with_origin(it, "eu")._replace(partition=0) for it in ours if it.offset != 70]
    rename = copied.torn("aged", kept, partitions=1)
    config = copied.without_checkpoint(tmp_path, rename)
    scope = Scope("eu", copied.topic, 0)
    whole = verify(config, VerifyRequest(scope), spark=session)
    assert (whole.totals.missing, whole.totals.expired) == (1, 0)
    lines: list[str] = []

    def delete(line: str) -> None:
        """When the ranges are known and not yet read: the first try is in vain."""
        lines.append(line)
        if len(lines) == 1:
            delete_records(copied.hub.bootstrap_servers, f"{copied.topic}.aged", {0: 40})

    aged = verify(config, VerifyRequest(scope), spark=session, progress=delete)
    assert any("looking again" in line for line in lines)
    assert (aged.totals.missing, aged.totals.expired) == (1, 40)
    assert found(aged, "missing") == {("eu", 0, 70)}
    assert any("deleted the beginning" in note for note in aged.notes)


def test_of_a_compacted_hub_topic_what_was_replaced_is_not_missing(
    copied: Copied, session: SparkSession, tmp_path: Path
) -> None:
    topic = f"compacted-{copied.topic}"
    create_topic(copied.eu.bootstrap_servers, topic)
    keys = [b"a", b"b", b"a", b"c"]
    produce(copied.eu.bootstrap_servers, topic, [NewRecord(b"v", key) for key in keys])
    records = read_topic(copied.eu.bootstrap_servers, topic)
    create_topic(
        copied.hub.bootstrap_servers, topic, partitions=1, config={"cleanup.policy": "compact"}
    )
    write_again(copied.hub, topic, [with_origin(records[at], "eu") for at in (2, 3)])
    config = make_config(copied.hub, tmp_path / "none", {"eu": source(copied.eu, topic)})
    report = verify(config, VerifyRequest(Scope()), spark=session)
    assert found(report, "missing") == {("eu", 0, 1)}
    assert (report.totals.superseded, report.totals.present) == (1, 2)


def test_a_source_that_is_away_costs_its_own_verdict_and_no_other(
    copied: Copied, session: SparkSession
) -> None:
    away = copied.config.sources["us"].model_copy(update={"bootstrap_servers": "127.0.0.1:1"})
    config = copied.config.model_copy(
        update={
            "sources": {**copied.config.sources, "us": away},
            "supervision": copied.config.supervision.model_copy(update={"connect_timeout": 3.0}),
        }
    )
    report = verify(config, VerifyRequest(Scope(topic=copied.topic)), spark=session)
    assert report.exit_code == EXIT_CLUSTER, report.findings
    assert report.totals.present == len(copied.sources["eu"])
    assert "127.0.0.1:1" in report.unreachable["us"]
    assert [str(it.standing) for it in report.partitions] == ["compared"] * 2 + ["unreachable"] * 2


def test_a_topic_that_was_made_again_is_named(copied: Copied, session: SparkSession) -> None:
    servers = copied.eu.bootstrap_servers
    delete_topic(servers, copied.remade)
    create_topic(servers, copied.remade)
    produce(servers, copied.remade, [NewRecord(b"after")] * 30)
    report = verify(copied.config, VerifyRequest(Scope(topic=copied.remade)), spark=session)
    assert report.exit_code == EXIT_DATA
    (row,) = report.partitions
    assert "created again" in row.reason
    assert (row.twice, row.altered, report.totals.foreign) == (0, 0, 0)


def test_what_comes_while_the_hub_is_asked_is_no_unknown_source(
    source_a: EmbeddedCluster,
    hub: EmbeddedCluster,
    tmp_path: Path,
    unique: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    create_topic(source_a.bootstrap_servers, unique)
    config = make_config(hub, tmp_path / "state", {"eu": source(source_a, f"{unique}.*")})
    plain = audit_inputs._hub_logs

    def late(*asked: Any) -> Any:
        """Records of it may be at the hub when its ends are read."""
        create_topic(source_a.bootstrap_servers, f"{unique}-late", partitions=2)
        create_topic(source_a.bootstrap_servers, f"other-{unique}")
        return plain(*asked)

    monkeypatch.setattr(audit_inputs, "_hub_logs", late)
    known = audit_inputs.look(config, Scope()).known
    assert {(sp.topic, sp.partition) for sp in known} == {
        (unique, 0),
        (f"{unique}-late", 0),
        (f"{unique}-late", 1),
    }


def test_it_can_be_stopped(copied: Copied, session: SparkSession) -> None:
    stop = threading.Event()

    def after_the_first_line(_line: str) -> None:
        stop.set()

    with pytest.raises(StoppedError, match="nothing is recorded"):
        verify(
            copied.config,
            VerifyRequest(Scope()),
            stop=stop,
            progress=after_the_first_line,
            spark=session,
        )


def test_ctrl_c_in_a_terminal_reaches_its_java_too_and_ends_it_in_a_sentence(
    copied: Copied, tmp_path: Path
) -> None:
    file, log = tmp_path / "aggregator.yaml", tmp_path / "log"
    file.write_text(to_yaml(copied.config))
    command = [sys.executable, "-m", "aggregator", "verify", "-c", str(file)]
    with (
        log.open("w") as output,
        subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        ) as running,
    ):
        try:
            wait_for(lambda: "offsets to compare" in log.read_text(), "it compares")
            wait_for(lambda: java_of(running.pid), "its Java is there")
            os.killpg(running.pid, signal.SIGTERM)
            assert running.wait(60) == EXIT_OTHER, log.read_text()
        finally:
            with suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)
    text = log.read_text()
    assert "stopped before the end; nothing is recorded" in text
    assert "Traceback" not in text
    assert "unexpected" not in text


def java_of(pid: int) -> bool:
    """Whether a process of this process group is a Java."""
    found = subprocess.run(["pgrep", "-g", str(pid), "java"], capture_output=True)
    return found.returncode == 0


@pytest.mark.timeout(900)
def test_beside_a_running_instance_what_is_committed_is_there(
    source_a: EmbeddedCluster, hub: EmbeddedCluster, tmp_path: Path, unique: str
) -> None:
    create_topic(source_a.bootstrap_servers, unique, partitions=3)
    config = make_config(
        hub, tmp_path / "state", {"eu": source(source_a, unique)}, api={"listen": "off"}
    )
    file = tmp_path / "aggregator.yaml"
    file.write_text(to_yaml(config))
    command = ["verify", "-c", str(file), "-o", "json"]
    out, log = tmp_path / "out.json", tmp_path / "log"
    with load([source_a], unique), run_in_background(config) as running:
        wait_until_topic_has(hub.bootstrap_servers, unique, 2_000)
        running.wait_for(
            lambda: any(lane.records for lane in running.status.lanes), "records are reported"
        )
        # A commit that was under way by then may not have them; the one behind it has.
        committed = running.status.checkpoint.seq or 0
        running.wait_for(
            lambda: (running.status.checkpoint.seq or 0) >= committed + 2, "they are committed"
        )
        beside = ForkedProcess(command, log, out=out, again=True)
        assert beside.wait(240), log.read_text()
        printed = json.loads(out.read_text())
        assert beside.exit_code == EXIT_DONE, (printed["totals"], log.read_text())
        assert printed["totals"]["expected"] == printed["totals"]["present"] > 0
    audits = DeltaTable(str(tmp_path / "state" / "audits")).to_pyarrow_table().to_pylist()
    assert {row["audit"] for row in audits} == {printed["audit"]}
