"""The origin in one header, and both forms in one hub topic: each record is there once."""

from __future__ import annotations

import json
import time
from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaProducer
from typer.testing import CliRunner

from aggregator.cli.main import app
from aggregator.config.render import to_yaml
from aggregator.config.schema import Config
from aggregator.extras.embedded.cluster import EmbeddedCluster
from aggregator.extras.embedded.topics import NewRecord, create_topic, produce
from aggregator.model.errors import EXIT_DONE
from aggregator.plan.lanes.murmur2 import partition_for_key
from support.application import KILLED, application
from support.changing import alter_topic
from support.crashed import crash_at_zero, with_origin, write_again
from support.load import load
from support.reading import Record, read_topic, wait_until_topic_has
from support.running import catch_up, make_config, source
from support.small_plans import AS_OPTIONS
from support.verdict import assert_copied, judge

FORMS = ("header", "headers")
MORE = 1_500
LIMIT = 20_000
DAY_MS = 86_400_000


def verified(config: Config, folder: Path) -> Any:
    """What `aggregator verify` says, as JSON; it has to find nothing."""
    file = folder / "verify.yaml"
    file.write_text(to_yaml(config))
    # In this process, whose JVM is warm; as a command of its own it is tested in test_verify.py.
    done = CliRunner().invoke(app, ["verify", "-c", str(file), "-o", "json", *AS_OPTIONS])
    assert done.exit_code == EXIT_DONE, (done.stdout, done.stderr)
    return json.loads(done.stdout)["totals"]


def forms_in(records: list[Record]) -> dict[str, int]:
    return dict(Counter(record.form for record in records))


@pytest.mark.timeout(900)
def test_changed_by_reload_under_load_and_killed_nothing_is_lost_or_there_twice(
    source_a: EmbeddedCluster,
    source_b: EmbeddedCluster,
    hub: EmbeddedCluster,
    tmp_path: Path,
    unique: str,
) -> None:
    clusters = {"eu": source_a, "us": source_b}
    for cluster in clusters.values():
        create_topic(cluster.bootstrap_servers, unique, partitions=2)
    create_topic(hub.bootstrap_servers, unique, partitions=3)

    def config_with(form: str) -> Config:
        return make_config(
            hub,
            tmp_path / "state",
            {alias: source(cluster, unique) for alias, cluster in clusters.items()},
            topics={"origin": form},
            api={"listen": "off"},
        )

    servers = hub.bootstrap_servers
    folder = tmp_path / "app"
    with load(list(clusters.values()), unique, 500):
        with application(config_with("header"), folder) as running:
            running.until_logged("running")
            copied = wait_until_topic_has(servers, unique, MORE)
            (folder / "aggregator.yaml").write_text(to_yaml(config_with("headers")))
            running.hang_up()
            running.until_logged("reloaded")
            running.until(
                lambda: sum(it["event"] == "lane_started" for it in running.events()) == 2,
                "its lane starts again",
            )
            # From here on in the other form; how long the reload took says nothing.
            copied = wait_until_topic_has(servers, unique, copied)
            copied = wait_until_topic_has(servers, unique, copied + MORE)
            running.kill()
            running.until(lambda: not running.alive, "it is dead")
            assert running.exit_code == KILLED
            assert running.wait_gone()
        both = forms_in(read_topic(servers, unique))
        assert set(both) == set(FORMS), both
        # A third change, by a life that has a crash to recover from.
        with application(config_with("header"), folder, again=True) as running:
            running.until_logged("recovered")
            wait_until_topic_has(servers, unique, copied + MORE)
            running.terminate()
            running.until(lambda: not running.alive, "it has ended")
            assert running.exit_code == 0, running.text
    assert catch_up(config_with("header")).exit_code == 0
    where = {alias: (it.bootstrap_servers, unique) for alias, it in clusters.items()}
    found = assert_copied(where, (servers, unique), at_least=3 * MORE)
    assert min(forms_in(found).values()) > MORE // 2
    totals = verified(config_with("header"), tmp_path)
    assert totals["expected"] == totals["present"] == len(found)


def odd(servers: str, topic: str) -> None:
    """Records whose own headers look like ours, and one without a timestamp."""
    create_topic(servers, topic, partitions=2, config={"retention.ms": "-1"})
    shapes: list[list[tuple[str, bytes | None]]] = [
        [],
        [("a", b"1"), ("origin", b"web"), ("a", None)],
        [("origin", b"eu/elsewhere/0/7")],
        [("origin", None)],
        [("origin.cluster", b"evil"), ("origin.offset", b"7"), ("origin", b"a/b/c")],
    ]
    produce(
        servers,
        topic,
        [
            NewRecord(b"%d" % at, b"key-%d" % (at % 97), headers=shapes[at % len(shapes)])
            for at in range(2_000)
        ],
    )
    # librdkafka takes -1 for "now".
    timeless = KafkaProducer(bootstrap_servers=servers, acks="all")
    try:
        for partition in range(2):
            timeless.send(topic, b"v", b"timeless", partition=partition, timestamp_ms=-1).get(60)
    finally:
        timeless.close()


@pytest.mark.timeout(900)
@pytest.mark.parametrize("form", FORMS)
def test_holes_in_a_hub_with_both_forms_are_filled(
    form: str, source_a: EmbeddedCluster, hub: EmbeddedCluster, tmp_path: Path, unique: str
) -> None:
    odd(source_a.bootstrap_servers, unique)
    records = read_topic(source_a.bootstrap_servers, unique)
    assert min(record.timestamp for record in records) == -1
    # As a crash leaves it: of each source partition and hub partition the first, in either form.
    delivered = [
        with_origin(record, "eu", FORMS[record.offset // 50 % 2])._replace(
            partition=partition_for_key(record.key or b"", 3)
        )
        for record in records
    ]
    kept = [it for it in delivered if it.origin.offset < 100 + 130 * it.partition]
    create_topic(hub.bootstrap_servers, unique, partitions=3)
    write_again(hub, unique, kept)
    produce(hub.bootstrap_servers, unique, [NewRecord(b"not ours", b"k")])
    config = make_config(
        hub,
        tmp_path / "state",
        {"eu": source(source_a, unique)},
        topics={"origin": form},
        api={"listen": "off"},
    )
    crash_at_zero(config, unique, {"eu": 2})
    result = catch_up(config)
    assert (result.exit_code, result.problems) == (0, ())
    assert result.status.recovery is not None
    assert result.status.recovery.found == len(kept)
    whole = read_topic(hub.bootstrap_servers, unique)
    found = [record for record in whole if record.value != b"not ours"]
    assert len(whole) == len(found) + 1
    problems = judge({"eu": records}, found).problems
    assert not problems, problems
    before = forms_in(kept)
    rest = len(records) - len(kept)
    assert forms_in(found) == {**before, form: before[form] + rest}


@pytest.mark.timeout(900)
def test_a_clean_copy_of_either_form_is_verified_record_by_record(
    source_a: EmbeddedCluster, hub: EmbeddedCluster, tmp_path: Path, unique: str
) -> None:
    topics = {form: f"{unique}.{form}" for form in FORMS}
    for topic in topics.values():
        odd(source_a.bootstrap_servers, topic)
    config = make_config(
        hub,
        tmp_path / "state",
        {"eu": source(source_a, f"{unique}.*")},
        topics={
            "partitions": 3,
            "origin": "headers",
            "overrides": {topic: {"origin": form} for form, topic in topics.items()},
        },
        api={"listen": "off"},
    )
    assert catch_up(config).exit_code == 0
    now = time.time() * 1000
    for form, topic in topics.items():
        where = {"eu": (source_a.bootstrap_servers, topic)}
        found = assert_copied(where, (hub.bootstrap_servers, topic), at_least=2_002)
        assert forms_in(found) == {form: 2_002}
        for record in found:
            assert abs(record.timestamp - now) < DAY_MS
    totals = verified(config, tmp_path)
    assert totals["expected"] == totals["present"] == 2 * 2_002


@pytest.mark.timeout(900)
def test_the_loop_guard_knows_hops_of_either_form(
    source_a: EmbeddedCluster,
    source_b: EmbeddedCluster,
    hub: EmbeddedCluster,
    tmp_path: Path,
    unique: str,
) -> None:
    """`central` copies eu and us into the hub; `edge` copies the hub back into eu.

    A topic for each pair of forms: what `central` writes, and what `edge` does.
    """
    pairs = {
        f"there.{first}.{second}.{unique}": (first, second)
        for first, second in (FORMS, FORMS[::-1], ("header", "header"))
    }
    eu, us, to = (each.bootstrap_servers for each in (source_a, source_b, hub))
    for servers, there in product((eu, us), pairs):
        create_topic(servers, there)
        # Somebody else's header, which names no hop.
        words = [NewRecord(b"%d" % at, b"k", headers=[("origin", b"central")]) for at in range(20)]
        produce(servers, there, words)
    central = make_config(
        hub,
        tmp_path / "central",
        {"eu": source(source_a, f".*{unique}"), "us": source(source_b, f"there.*{unique}")},
        name="central",
        topics={
            "overrides": {
                topic: {"origin": first}
                for there, (first, _) in pairs.items()
                for topic in (there, f"back.{there}")
            },
        },
    )
    edge = make_config(
        source_a,
        tmp_path / "edge",
        {"central": source(hub, f"there.*{unique}")},
        name="edge",
        hub={"known_as": ["eu"]},
        topics={
            "rename": "back.${topic}",
            "overrides": {
                f"back.{there}": {"origin": second} for there, (_, second) in pairs.items()
            },
        },
    )
    assert catch_up(central).exit_code == 0
    for there in pairs:
        assert_copied({"eu": (eu, there), "us": (us, there)}, (to, there), at_least=40)
    assert catch_up(edge).exit_code == 0
    for there, (first, second) in pairs.items():
        found = read_topic(eu, f"back.{there}")
        assert len(found) == 20
        for record in found:
            assert (record.form, record.origin[:2]) == (second, ("central", there))
            before = record._replace(headers=record.own_headers)
            assert (before.form, before.origin[:2]) == (first, ("us", there))
            assert before.own_headers == (("origin", b"central"),)
    verified(edge, tmp_path)
    for there in pairs:
        produce(eu, f"back.{there}", [NewRecord(b"of its own", b"k")])
    assert catch_up(central).exit_code == 0
    for there in pairs:
        # Central reads the topic, but these records name it already.
        returned = read_topic(to, f"back.{there}")
        assert [record.value for record in returned] == [b"of its own"]
        assert len(read_topic(to, there)) == 40
    verified(central, tmp_path)


@pytest.mark.timeout(900)
def test_a_refused_record_keeps_its_timestamp_and_is_retried_as_its_lane_would_have_written_it(
    source_a: EmbeddedCluster, hub: EmbeddedCluster, tmp_path: Path, unique: str
) -> None:
    create_topic(source_a.bootstrap_servers, unique)
    small = {"max.message.bytes": str(LIMIT), "retention.ms": "-1"}
    create_topic(hub.bootstrap_servers, unique, config=small)
    then = int(time.time() * 1000) - DAY_MS
    sizes = (1, LIMIT, 2, 2 * LIMIT, 3)
    own: list[tuple[str, bytes | None]] = [("own", b"1"), ("origin", None)]
    produce(
        source_a.bootstrap_servers,
        unique,
        [
            NewRecord(bytes(size), b"k", headers=own, timestamp=then + at)
            for at, size in enumerate(sizes)
        ],
    )
    config = make_config(
        hub,
        tmp_path / "state",
        {"eu": source(source_a, unique)},
        name=unique,
        hub={"producer": {"compression.type": "none"}},
        topics={"sync_configs": False, "origin": "header"},
        api={"listen": "off"},
    )
    assert catch_up(config).exit_code == 0
    aside = read_topic(hub.bootstrap_servers, f"{unique}.quarantine")
    names = ("reason", "hub_topic", "size", "kept", "timestamp")
    for record, at in zip(aside, (1, 3), strict=True):
        assert [name for name, _ in record.headers] == [
            *(name for name, _ in own),
            *(f"quarantine.{name}" for name in names),
            "origin",
        ]
        assert (record.form, record.origin.offset) == ("header", at)
        assert dict(record.headers)["quarantine.timestamp"] == b"%d" % (then + at)
    totals = verified(config, tmp_path)
    assert (totals["present"], totals["accounted"]) == (3, 2)
    alter_topic(hub.bootstrap_servers, unique, {"max.message.bytes": str(4 * LIMIT)})
    file = tmp_path / "quarantine.yaml"
    # What lies there already keeps its form.
    file.write_text(to_yaml(config).replace("origin: header", "origin: headers"))
    done = CliRunner().invoke(app, ["quarantine", "retry", "--all", "-c", str(file), "-o", "json"])
    assert (done.exit_code, [it["state"] for it in json.loads(done.stdout)]) == (
        0,
        ["retried", "retried"],
    )
    records = read_topic(source_a.bootstrap_servers, unique)
    found = read_topic(hub.bootstrap_servers, unique)
    problems = judge({"eu": records}, found).problems
    assert set(problems) <= {"out_of_order"}, problems
    assert forms_in(found) == {"header": 5}
    totals = verified(config, tmp_path)
    assert totals["expected"] == totals["present"] + totals["accounted"] == 5
