"""Records that the hub refuses: they go into quarantine, or stop their lane; all others arrive."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from aggregator.cli.main import app
from aggregator.config.render import to_yaml
from aggregator.config.schema import Config
from aggregator.extras.embedded.cluster import EmbeddedCluster
from aggregator.extras.embedded.topics import NewRecord, create_topic, produce
from aggregator.features.quarantine import ledger
from aggregator.features.quarantine.records import Note, Origin, RecordState
from aggregator.model.errors import EXIT_DATA
from aggregator.model.values import SourcePartition
from aggregator.status.schema import RecoveryStatus
from support.application import application
from support.changing import alter_topic
from support.crashed import crash_at_zero, with_origin, write_again
from support.reading import Record, read_topic, topics_of, wait_until_topic_has
from support.running import catch_up, make_config, run_in_background, source
from support.verdict import judge

LIMIT = 20_000
DAY_MS = 86_400_000
BUSY_SECONDS = 20
"""For this long a note holds another retry off here, so that no test waits two minutes."""
FOREVER = str(2**63 - 1)
PLAIN: dict[str, Any] = {"producer": {"compression.type": "none"}}
QUARANTINE_CONFIG = {"message.timestamp.type": "LogAppendTime", "retention.ms": "-1"}


def names(record: Record) -> dict[str, str]:
    return {name: (value or b"").decode(errors="replace") for name, value in record.headers}


def restored(records: Sequence[Record]) -> list[Record]:
    """Quarantined records as they would be in their hub topic; they must be there whole."""
    found = []
    for record in records:
        headers = names(record)
        assert headers["quarantine.kept"] == "whole", headers
        rest = (*record.headers[:-9], *record.headers[-5:])
        found.append(
            record._replace(headers=rest, timestamp=int(headers["origin.timestamp"]), partition=-1)
        )
    return found


def assert_each_once(
    expected: Sequence[Record], hub: Sequence[Record], quarantined: Sequence[Record]
) -> None:
    """The hub topic and the quarantine topic together hold every origin once, as it was."""
    verdict = judge({"eu": expected}, [*hub, *restored(quarantined)])
    assert not verdict.problems, verdict.problems
    assert verdict.copied == len(expected)


def cli(config: Config, folder: Path, *words: str) -> tuple[int, Any]:
    """Exit code and JSON of `aggregator quarantine ...`."""
    file = folder / "quarantine.yaml"
    file.write_text(to_yaml(config))
    done = CliRunner().invoke(app, ["quarantine", *words, "-c", str(file), "-o", "json"])
    return done.exit_code, json.loads(done.stdout) if done.stdout else done.stderr


def varint(number: int) -> int:
    return max(1, -(-(2 * number).bit_length() // 7))


def room_in(limit: int, topic: str, offset: int, key: bytes, timestamp: int) -> int:
    """How long a value may be, so that its batch in the hub is as large as the limit.

    Counted from the record format itself, for values of two-byte lengths without own headers.
    """
    origin = {
        "origin.cluster": "eu",
        "origin.topic": topic,
        "origin.partition": "0",
        "origin.offset": str(offset),
        "origin.timestamp": str(timestamp),
    }
    headers = sum(varint(len(text)) + len(text) for pair in origin.items() for text in pair)
    around = 3 + varint(len(key)) + len(key) + 3 + 1 + headers
    return limit - 61 - 3 - around


@pytest.mark.timeout(900)
def test_every_kind_goes_aside_all_else_continues_and_what_fits_later_is_retried(
    source_a: EmbeddedCluster, hub: EmbeddedCluster, tmp_path: Path, unique: str
) -> None:
    now = int(time.time() * 1000)
    keys = f"{unique}.keys"
    for topic in (unique, keys):
        create_topic(
            source_a.bootstrap_servers,
            topic,
            partitions=1,
            config={"message.timestamp.after.max.ms": FOREVER, "retention.ms": "-1"},
        )
    create_topic(
        hub.bootstrap_servers,
        unique,
        partitions=2,
        config={
            "max.message.bytes": str(LIMIT),
            "message.timestamp.after.max.ms": str(DAY_MS),
            "message.timestamp.before.max.ms": str(30 * DAY_MS),
            "retention.ms": "-1",
        },
    )
    create_topic(hub.bootstrap_servers, keys, partitions=1, config={"cleanup.policy": "compact"})
    exact = room_in(LIMIT, unique, 2, b"exact", now)
    produce(
        source_a.bootstrap_servers,
        unique,
        [
            NewRecord(b"v0", b"k", timestamp=now),
            NewRecord(b"ahead", b"k", timestamp=now + 9 * DAY_MS),
            NewRecord(bytes(exact), b"exact", timestamp=now),
            NewRecord(bytes(exact + 1), b"exact", timestamp=now),
            NewRecord(bytes(70_000), b"k", headers=[("own", b"1"), ("own", None)], timestamp=now),
            NewRecord(b"old", b"k", timestamp=now - 90 * DAY_MS),
            NewRecord(b"v6", b"k", timestamp=now),
        ],
    )
    produce(
        source_a.bootstrap_servers,
        keys,
        [NewRecord(b"a", b"k"), NewRecord(b"b"), NewRecord(b"c", b"l")],
    )
    config = make_config(
        hub,
        tmp_path / "state",
        {"eu": source(source_a, f"{unique}([.]keys)?")},
        name=unique,
        hub=PLAIN,
        topics={"sync_configs": False},
        api={"listen": "off"},
    )
    quarantine = f"{unique}.quarantine"
    with run_in_background(config) as running:
        wait_until_topic_has(hub.bootstrap_servers, quarantine, 5)
        produce(source_a.bootstrap_servers, unique, [NewRecord(b"v7", b"k", timestamp=now)])
        wait_until_topic_has(hub.bootstrap_servers, unique, 4)
        wait_until_topic_has(hub.bootstrap_servers, keys, 2)
        running.wait_for(lambda: "quarantined" in running.kinds(), "it is reported")
        seen = running.wait_for(
            lambda: it if (it := running.status.quarantine) and it.records == 5 else None,
            "all are counted",
        )
        assert seen is not None
        assert seen.reasons == {"timestamp": 2, "too_large": 2, "no_key": 1}
        assert running.status.sources[0].quarantined == 5
        assert "lane_failed" not in running.kinds()
    found = read_topic(hub.bootstrap_servers, quarantine)
    reasons = {(r.origin.topic, r.origin.offset): names(r)["quarantine.reason"] for r in found}
    assert reasons == {
        (unique, 1): "timestamp",
        (unique, 3): "too_large",
        (unique, 4): "too_large",
        (unique, 5): "timestamp",
        (keys, 1): "no_key",
    }
    records = read_topic(source_a.bootstrap_servers, unique)
    assert_each_once(
        records,
        read_topic(hub.bootstrap_servers, unique),
        [record for record in found if record.origin.topic == unique],
    )
    assert int(names(found[-1])["quarantine.size"]) > 0

    # A clean start has nothing to recover, and writes nothing of it again.
    assert catch_up(config).exit_code == 0
    assert len(read_topic(hub.bootstrap_servers, quarantine)) == 5
    code, listed = cli(config, tmp_path, "list", "--reason", "too_large")
    assert (code, [it["origin"] for it in listed]) == (0, [f"eu/{unique}-0@3", f"eu/{unique}-0@4"])
    assert (listed[0]["bytes"], listed[0]["state"]) == (LIMIT + 1, "open")

    # One byte too much is too much for the broker as well.
    code, tried = cli(config, tmp_path, "retry", "--origin", f"eu/{unique}-0@3")
    assert (code, tried[0]["state"]) == (4, "refused")
    assert cli(config, tmp_path, "retry", "--origin", f"eu/{unique}-0@2")[0] == 4
    alter_topic(hub.bootstrap_servers, unique, {"max.message.bytes": str(LIMIT + 1)})
    code, dry = cli(
        config, tmp_path, "retry", "--source", "eu", "--reason", "too_large", "--dry-run"
    )
    assert code == 0 and "would be written" in dry[0]["detail"]
    code, tried = cli(config, tmp_path, "retry", "--all")
    states = {it["origin"]: it["state"] for it in tried}
    assert code == 4
    assert states == {
        f"eu/{unique}-0@1": "refused",
        f"eu/{unique}-0@3": "retried",
        f"eu/{unique}-0@4": "refused",
        f"eu/{unique}-0@5": "refused",
        f"eu/{keys}-0@1": "open",
    }
    alter_topic(
        hub.bootstrap_servers,
        unique,
        {
            "max.message.bytes": "200000",
            "message.timestamp.after.max.ms": FOREVER,
            "message.timestamp.before.max.ms": FOREVER,
        },
    )
    code, tried = cli(config, tmp_path, "retry", "--topic", unique)
    assert (code, [it["state"] for it in tried]) == (0, ["retried"] * 3)
    assert cli(config, tmp_path, "retry", "--topic", unique) == (0, [])
    assert [it["origin"] for it in cli(config, tmp_path, "list")[1]] == [f"eu/{keys}-0@1"]
    assert len(cli(config, tmp_path, "list", "--retried")[1]) == 5
    copied = read_topic(hub.bootstrap_servers, unique)
    verdict = judge({"eu": records}, copied)
    assert set(verdict.problems) <= {"out_of_order"}
    assert len({record.partition for record in copied if record.key == b"k"}) == 1


@pytest.mark.timeout(900)
def test_stop_names_the_record_and_nothing_is_lost(
    source_a: EmbeddedCluster, hub: EmbeddedCluster, tmp_path: Path, unique: str
) -> None:
    create_topic(source_a.bootstrap_servers, unique, partitions=2)
    create_topic(
        hub.bootstrap_servers, unique, partitions=2, config={"max.message.bytes": str(LIMIT)}
    )
    produce(
        source_a.bootstrap_servers,
        unique,
        [
            NewRecord(bytes(30_000) if at == 40 else b"v%d" % at, b"k%d" % (at % 7), at % 2)
            for at in range(100)
        ],
    )

    def config_with(policy: str) -> Config:
        return make_config(
            hub,
            tmp_path / "state",
            {"eu": source(source_a, unique)},
            name=unique,
            hub=PLAIN,
            topics={"sync_configs": False, "on_poison": policy},
            api={"listen": "off"},
        )

    with run_in_background(config_with("stop")) as running:
        running.wait_for(lambda: "partition_stopped" in running.kinds(), "it stops")
        (message, *_) = [it.message for it in running.events if it.kind == "partition_stopped"]
        for words in (f"eu/{unique}-0@20", "too_large", "topics.on_poison is stop", unique):
            assert words in message
        running.wait_for(
            lambda: any("on_poison" in part.reason for part in running.status.partitions),
            "it is shown",
        )
        # The other partition continues, and everything before the record arrives.
        wait_until_topic_has(hub.bootstrap_servers, unique, 50 + 20)
        assert "lane_failed" not in running.kinds()
    assert f"{unique}.quarantine" not in topics_of(hub.bootstrap_servers)
    assert catch_up(config_with("quarantine")).exit_code == 0
    aside = read_topic(hub.bootstrap_servers, f"{unique}.quarantine")
    assert [(r.origin.partition, r.origin.offset) for r in aside] == [(0, 20)]
    assert_each_once(
        read_topic(source_a.bootstrap_servers, unique),
        read_topic(hub.bootstrap_servers, unique),
        aside,
    )


@pytest.mark.timeout(900)
def test_with_compression_a_large_record_passes_until_one_is_refused(
    source_a: EmbeddedCluster, hub: EmbeddedCluster, tmp_path: Path, unique: str
) -> None:
    noise = random.Random(unique).randbytes(60_000)
    create_topic(source_a.bootstrap_servers, unique, partitions=1)
    create_topic(
        hub.bootstrap_servers, unique, partitions=2, config={"max.message.bytes": str(LIMIT)}
    )
    # Smaller than what it has to hold, and not ours to change.
    create_topic(
        hub.bootstrap_servers,
        f"{unique}.quarantine",
        config={**QUARANTINE_CONFIG, "max.message.bytes": "5000"},
    )
    config = make_config(
        hub,
        tmp_path / "state",
        {"eu": source(source_a, unique)},
        name=unique,
        topics={"sync_configs": False},
        api={"listen": "off"},
    )
    produce(
        source_a.bootstrap_servers,
        unique,
        [NewRecord(b"v0", b"k"), NewRecord(bytes(300_000), b"k"), NewRecord(b"v2", b"k")],
    )
    with run_in_background(config) as running:
        wait_until_topic_has(hub.bootstrap_servers, unique, 3)
        produce(
            source_a.bootstrap_servers,
            unique,
            [NewRecord(noise, b"k"), NewRecord(b"v4", b"k")],
        )
        running.wait_for(lambda: "records_checked" in running.kinds(), "the hub refuses one")
        wait_until_topic_has(hub.bootstrap_servers, f"{unique}.quarantine", 1)
        produce(source_a.bootstrap_servers, unique, [NewRecord(bytes(300_000), b"k")])
        wait_until_topic_has(hub.bootstrap_servers, f"{unique}.quarantine", 2)
        wait_until_topic_has(hub.bootstrap_servers, unique, 4)
        running.wait_for(
            lambda: (it := running.status.quarantine) and it.records == 2, "they are counted"
        )
        # Beside the running instance: from the source, because neither was kept whole.
        code, tried = cli(config, tmp_path, "retry", "--all")
        assert (code, [it["state"] for it in tried]) == (4, ["refused", "retried"])
        produce(source_a.bootstrap_servers, unique, [NewRecord(b"v6", b"k")])
        wait_until_topic_has(hub.bootstrap_servers, unique, 6)
    # The next run begins without care, and meets nothing of it again.
    assert catch_up(config).exit_code == 0
    records = read_topic(source_a.bootstrap_servers, unique)
    verdict = judge({"eu": records}, read_topic(hub.bootstrap_servers, unique))
    assert verdict.missing == [("eu", 0, 3)]
    assert set(verdict.problems) == {"missing"}
    listed = cli(config, tmp_path, "list", "--retried")[1]
    assert [(it["origin"], it["kept"], it["state"]) for it in listed] == [
        (f"eu/{unique}-0@3", "key", "refused"),
        (f"eu/{unique}-0@5", "key", "retried"),
    ]


@pytest.mark.timeout(900)
def test_killed_with_quarantined_records_in_the_tail(
    source_a: EmbeddedCluster, hub: EmbeddedCluster, tmp_path: Path, unique: str
) -> None:
    count = 10_000
    create_topic(source_a.bootstrap_servers, unique, partitions=3)
    create_topic(
        hub.bootstrap_servers, unique, partitions=2, config={"max.message.bytes": str(LIMIT)}
    )
    produce(
        source_a.bootstrap_servers,
        unique,
        [
            NewRecord(bytes(21_000) if at % 50 == 0 else b"v%d" % at, b"k%d" % (at % 97), at % 3)
            for at in range(count)
        ],
    )
    config = make_config(
        hub,
        tmp_path / "state",
        {"eu": source(source_a, unique)},
        name=unique,
        hub=PLAIN,
        topics={"sync_configs": False},
        stream={"checkpoint_interval": "30s"},
        api={"listen": "off"},
    )
    with application(config, tmp_path) as running:
        wait_until_topic_has(hub.bootstrap_servers, unique, 1_000)
        running.kill()
        assert running.wait_gone()
    # Some are retried before the recovery looks for what the crash has left: they are in the hub
    # topic and in quarantine, behind its bounds, and are neither missed nor written again.
    alter_topic(hub.bootstrap_servers, unique, {"max.message.bytes": "100000"})
    retried = [it.origin for it in read_topic(hub.bootstrap_servers, f"{unique}.quarantine")[:3]]
    words = [f"--origin=eu/{unique}-{it.partition}@{it.offset}" for it in retried]
    code, tried = cli(config, tmp_path, "retry", *words)
    assert (code, {it["state"] for it in tried}) == (0, {"retried"})
    alter_topic(hub.bootstrap_servers, unique, {"max.message.bytes": str(LIMIT)})
    result = catch_up(config)
    assert result.exit_code == 0
    assert recovery_of(result.status.recovery).found > 0
    aside = [
        record
        for record in read_topic(hub.bootstrap_servers, f"{unique}.quarantine")
        if "quarantine.reason" in names(record) and record.origin not in retried
    ]
    assert len(aside) == count // 50 - len(retried)
    copied = [*read_topic(hub.bootstrap_servers, unique), *restored(aside)]
    verdict = judge({"eu": read_topic(source_a.bootstrap_servers, unique)}, copied)
    # Those that were retried come later than what followed them.
    assert set(verdict.problems) <= {"out_of_order"}, verdict.problems
    assert verdict.copied == count


def test_a_recovery_looks_into_quarantine_and_puts_there_what_is_missing(
    source_a: EmbeddedCluster, hub: EmbeddedCluster, tmp_path: Path, unique: str
) -> None:
    """And what is in quarantine does not replace the older value of its key."""
    noise = random.Random(unique).randbytes(30_000)
    create_topic(source_a.bootstrap_servers, unique, partitions=1)
    produce(
        source_a.bootstrap_servers,
        unique,
        [
            NewRecord(value, key)
            for value, key in (
                (b"v0", b"k"),
                (bytes(70_000), b"k"),
                (noise, b"l"),
                (b"v3", b"m"),
                (b"v4", b"n"),
            )
        ],
    )
    records = read_topic(source_a.bootstrap_servers, unique)
    create_topic(
        hub.bootstrap_servers,
        unique,
        config={"max.message.bytes": str(LIMIT), "cleanup.policy": "compact"},
    )
    quarantine = f"{unique}.quarantine"
    create_topic(hub.bootstrap_servers, quarantine, config=QUARANTINE_CONFIG)
    config = make_config(
        hub,
        tmp_path / "state",
        {"eu": source(source_a, unique)},
        name=unique,
        topics={"sync_configs": False},
    )
    # Offset 1 is in quarantine and 3 in the hub; 0 was lost, and 2, which the hub will refuse.
    header = (
        ("quarantine.reason", b"too_large"),
        ("quarantine.hub_topic", unique.encode()),
        ("quarantine.size", b"70200"),
        ("quarantine.kept", b"whole"),
    )
    write_again(hub, quarantine, [with_origin(records[1]._replace(headers=header), "eu")])
    write_again(hub, unique, [with_origin(records[3], "eu")])
    crash_at_zero(config, unique, {"eu": 1})
    result = catch_up(config)
    assert (result.exit_code, result.problems) == (0, ())
    recovery = recovery_of(result.status.recovery)
    # The first try wrote offset 0 and met offset 2, which the second knew better. Offset 4 was on
    # its way behind it, and may have arrived before the first ended.
    assert (recovery.found, recovery.replayed) in ((3, 1), (4, 1))
    aside = read_topic(hub.bootstrap_servers, quarantine)
    assert [record.origin.offset for record in aside] == [1, 2]
    found = read_topic(hub.bootstrap_servers, unique)
    assert [record.value for record in found] == [b"v3", b"v0", b"v4"]
    assert_each_once(records, sorted(found, key=lambda record: record.origin.offset), aside)


def test_with_stop_a_recovery_names_the_record_that_it_cannot_write(
    source_a: EmbeddedCluster, hub: EmbeddedCluster, tmp_path: Path, unique: str
) -> None:
    noise = random.Random(unique).randbytes(30_000)
    create_topic(source_a.bootstrap_servers, unique, partitions=1)
    produce(
        source_a.bootstrap_servers,
        unique,
        [NewRecord(value, b"k") for value in (b"v0", noise, b"v2")],
    )
    records = read_topic(source_a.bootstrap_servers, unique)
    create_topic(hub.bootstrap_servers, unique, config={"max.message.bytes": str(LIMIT)})

    def config_with(policy: str) -> Config:
        return make_config(
            hub,
            tmp_path / "state",
            {"eu": source(source_a, unique)},
            name=unique,
            topics={"sync_configs": False, "on_poison": policy},
        )

    write_again(hub, unique, [with_origin(records[2], "eu")])
    crash_at_zero(config_with("stop"), unique, {"eu": 1})
    stopped = catch_up(config_with("stop"))
    assert stopped.exit_code == EXIT_DATA
    assert f"eu/{unique}-0@1 (too_large)" in " ".join(stopped.problems)
    assert catch_up(config_with("quarantine")).exit_code == 0
    found = read_topic(hub.bootstrap_servers, unique)
    assert_each_once(
        records,
        sorted(found, key=lambda record: record.origin.offset),
        read_topic(hub.bootstrap_servers, f"{unique}.quarantine"),
    )


def test_a_retry_that_ended_without_a_word_is_found_out_about(
    source_a: EmbeddedCluster,
    hub: EmbeddedCluster,
    tmp_path: Path,
    unique: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Three records: one is being retried now; of two it is not known, and one of these arrived."""
    create_topic(source_a.bootstrap_servers, unique)
    produce(
        source_a.bootstrap_servers,
        unique,
        [NewRecord(b"v%d" % at, b"k", headers=[("own", None)]) for at in range(3)],
    )
    records = read_topic(source_a.bootstrap_servers, unique)
    quarantine = f"{unique}.quarantine"
    create_topic(hub.bootstrap_servers, unique)
    create_topic(hub.bootstrap_servers, quarantine, config=QUARANTINE_CONFIG)
    config = make_config(hub, tmp_path, {"eu": source(source_a, unique)}, name=unique)
    ours = (
        ("quarantine.reason", b"too_large"),
        ("quarantine.hub_topic", unique.encode()),
        ("quarantine.size", b"9"),
        ("quarantine.kept", b"whole"),
    )
    write_again(
        hub,
        quarantine,
        [with_origin(it._replace(headers=it.headers + ours), "eu") for it in records],
    )
    write_again(hub, unique, [with_origin(records[1], "eu")])
    notes = [
        Note(Origin(SourcePartition("eu", unique, 0), at), RecordState.TRYING, "another", 0, 0)
        for at in range(3)
    ]
    written = [NewRecord(None, str(it.origin).encode(), headers=it.headers()) for it in notes]
    produce(hub.bootstrap_servers, quarantine, written[1:])
    # The broker alone says when a note came, so the two have to grow old by its clock.
    monkeypatch.setattr(ledger, "BUSY_MS", BUSY_SECONDS * 1000)
    time.sleep(BUSY_SECONDS + 1)
    produce(hub.bootstrap_servers, quarantine, written[:1])
    code, tried = cli(config, tmp_path, "retry", "--all")
    assert code == 4
    assert [it["state"] for it in tried] == ["trying", "retried", "retried"]
    assert "another retry is at it" in tried[0]["detail"]
    found = read_topic(hub.bootstrap_servers, unique)
    verdict = judge({"eu": records}, found)
    assert (verdict.missing, len(found)) == ([("eu", 0, 0)], 2)
    assert set(verdict.problems) == {"missing"}
    assert [it["origin"] for it in cli(config, tmp_path, "list")[1]] == [f"eu/{unique}-0@0"]


def recovery_of(recovery: RecoveryStatus | None) -> RecoveryStatus:
    assert recovery is not None, "nothing was recovered"
    return recovery
