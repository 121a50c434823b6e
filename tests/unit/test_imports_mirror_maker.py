"""What an import makes of a file, beside what MirrorMaker 2's own classes make of it.

Both are asked about the same names of topics; a difference is one that is explained here, or a
defect.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from aggregator.config.load import load_text
from aggregator.config.schema import Config
from aggregator.extras.importers.connector_source import BEATS_COPIED
from aggregator.extras.importers.hub_drafts import brokers_of
from aggregator.extras.importers.import_request import ImportRequest, finished
from aggregator.extras.importers.import_yaml import Finished, Secrets
from aggregator.extras.importers.mirror_maker_1_keys import WITHOUT
from aggregator.features.connectors.mirror_maker_source import NEWEST
from aggregator.model.errors import ConfigError
from aggregator.plan.topics.naming import naming_of
from aggregator.plan.topics.selection import Selection, owner_of
from support.java_tests import asked_of_mirror_maker
from support.mirror_files import TOPICS, WRITTEN, made_connector, made_file

FILES, CONNECTORS = 150, 300


@dataclass(frozen=True, slots=True)
class Ours:
    """What became of one flow."""

    config: Config
    alias: str
    found: Finished

    @property
    def decided(self) -> set[str]:
        """What needs a decision."""
        return {it.where.key for it in self.found.notes if it.decide}


@dataclass(frozen=True, slots=True)
class Case:
    """A file in one of its forms."""

    called: str
    asked: Mapping[str, Any]
    name: str
    content: str


def cases() -> list[Case]:
    texts = [*WRITTEN.items(), *((f"file {it}", made_file(it)) for it in range(FILES))]
    configs = [made_connector(seed) for seed in range(CONNECTORS)]
    return [
        *(Case(name, {"text": text}, "mm2.properties", text) for name, text in texts),
        *(
            Case(f"connector {seed}", {"config": config}, "connector.json", json.dumps(config))
            for seed, config in enumerate(configs)
        ),
    ]


def imported(case: Case, folder: Path) -> list[Ours] | ConfigError:
    file = folder / case.name
    file.write_text(case.content, "utf-8")
    try:
        made = finished(ImportRequest(files=[file], version=NEWEST), Secrets.CLEAR)
    except ConfigError as error:
        return error
    return [
        Ours(config, alias, found)
        for found in made
        for config in [load_text(found.text, env={})]
        for alias in config.sources
    ]


def test_an_import_comes_to_what_mirror_maker_2_does(tmp_path: Path) -> None:
    asked = cases()
    said = asked_of_mirror_maker(tmp_path, [{**it.asked, "topics": TOPICS} for it in asked])
    wrong = []
    flows = 0
    for case, answer in zip(asked, said, strict=True):
        ours = imported(case, tmp_path)
        found = differences(ours, answer)
        flows += len(answer.get("flows", ()))
        wrong += [f"{case.called}: {it}" for it in found]
    assert not wrong, "\n".join([f"{len(wrong)} differences", *wrong[:40]])
    # Both sides had something to say about nearly all of them.
    assert flows > (FILES + CONNECTORS) * 0.8


def differences(ours: list[Ours] | ConfigError, answer: Any) -> list[str]:
    if "values must not be empty" in answer.get("error", ""):
        # So it is since 4.2; older versions take such a list.
        return []
    if "error" in answer:
        # Where it does not start, we have no config either, or something to decide.
        return (
            [] if isinstance(ours, ConfigError) or any(it.decided for it in ours) else [str(answer)]
        )
    if isinstance(ours, ConfigError):
        if all(not flow["names"] for flow in answer["flows"]):
            return []
        return [f"refused: {ours}"]
    if len(ours) != len(answer["flows"]):
        return [f"{len(ours)} sources for {len(answer['flows'])} flows"]
    found = []
    for flow in answer["flows"]:
        mine = next((it for it in ours if is_of(it, flow)), None)
        if mine is None:
            found.append(f"no source for {flow.get('source')}->{flow.get('target')}")
        else:
            found += [f"{mine.alias}: {it}" for it in difference(mine, flow)]
    return found


def is_of(ours: Ours, flow: Any) -> bool:
    if "target" not in flow:
        return True
    return (ours.found.target, ours.alias) == (flow["target"], flow["source"])


def difference(ours: Ours, flow: Any) -> list[str]:
    source = ours.config.sources[ours.alias]
    selection, naming = Selection.of(source.topics), naming_of(ours.config, ours.alias)
    found = []
    for topic in TOPICS:
        theirs, mine = flow["names"].get(topic), selection.matches(topic)
        if mine and theirs is None:
            found.append(f"{topic} is taken")
        elif theirs is not None and not mine and not is_explained(ours, topic):
            found.append(f"{topic} is not taken")
        elif theirs is not None and mine and naming.of(topic).name != theirs:
            found.append(f"{topic} is {naming.of(topic).name}, not {theirs}")
    consumer = dict(flow["consumer"])
    if consumer.pop("auto.offset.reset") != source.start:
        found.append(f"start is {source.start}")
    if brokers_of(source.bootstrap_servers) != brokers_of(consumer.pop("bootstrap.servers")):
        found.append(f"it is read at {source.bootstrap_servers}")
    found += settings_apart("consumer", {**source.kafka, **source.consumer}, consumer)
    (stored,) = [it for it in ours.found.stored if it.alias == ours.alias]
    if (stored.connector, stored.cluster) != (flow["connector"], flow["alias"]):
        found.append(f"positions of {stored.connector}, {stored.cluster}")
    if "producer" in flow:
        found += hub_apart(ours, flow)
        if stored.topic != flow["store"]:
            found.append(f"positions are in {stored.topic}, not {flow['store']}")
    return found


def is_explained(ours: Ours, topic: str) -> bool:
    """Whether a topic is of a program, which is taken only where it is named: a note says so."""
    notes = {it.where.key for it in ours.found.notes}
    if topic.endswith("heartbeats") and any(it.endswith(BEATS_COPIED) for it in notes):
        return True
    return bool(owner_of(topic)) and any(re.search(r"(^|\.)topics$", it) for it in notes)


def hub_apart(ours: Ours, flow: Any) -> list[str]:
    hub = ours.config.hub
    producer = dict(flow["producer"])
    found = []
    if brokers_of(hub.bootstrap_servers) != brokers_of(producer.pop("bootstrap.servers")):
        found.append(f"the hub is {hub.bootstrap_servers}")
    return found + settings_apart("producer", {**hub.kafka, **hub.producer}, producer)


def settings_apart(part: str, ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> list[str]:
    left = {
        name: value
        for name, value in theirs.items()
        if name not in WITHOUT and not name.startswith("override.") and name != "poll.timeout.ms"
    }
    if dict(ours) == left:
        return []
    return [f"{part}: {dict(ours)}, not {left}"]


@pytest.mark.parametrize("name", WRITTEN)
def test_a_file_as_people_write_it_leaves_nothing_to_decide(tmp_path: Path, name: str) -> None:
    ours = imported(Case(name, {}, "mm2.properties", WRITTEN[name]), tmp_path)
    assert not isinstance(ours, ConfigError), ours
    assert not any(it.decided for it in ours)
