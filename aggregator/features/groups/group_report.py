"""Consumer groups and where they continue at the hub, as commands and the status show them."""

from pydantic import Field

from aggregator.config.schema import Config
from aggregator.features.groups.group_admin import ask_states, ask_unlisted
from aggregator.features.groups.hub_offsets import GOOD, PlaceVerdict, matching
from aggregator.kafka.admin import HUB
from aggregator.status.schema import Document


class GroupRow(Document):
    """A group at one source."""

    source: str
    group: str
    state: str
    synced: bool = Field(description="whether groups.sync of the source takes it")
    hub_state: str | None = Field(description="its state at the hub; null: not there")


class GroupsReport(Document):
    """The groups at the sources; `failed` says why not all of one are known, by its alias."""

    name: str
    groups: tuple[GroupRow, ...] = ()
    failed: dict[str, str] = {}


class GroupAtSource(Document):
    """What a group has at one source; `state` is "" where it is not known there."""

    source: str
    state: str
    partitions: int = Field(description="with a committed offset, of those that are copied")
    waiting: int = Field(description="offsets that it has read and that are not copied yet")


class GroupAtHub(Document):
    """Where a group continues in one hub partition."""

    topic: str
    partition: int
    offset: int
    again: int | None = Field(description="records that it reads again; null: not counted")
    at_end: bool = Field(description="nothing that it has not read is there yet")
    before: int | None = Field(description="what the hub had of the group; null: nothing")
    verdict: PlaceVerdict
    reason: str = ""


class UntranslatedTopic(Document):
    """A hub topic into which the group is not translated, and why."""

    topic: str
    reason: str


class GroupReport(Document):
    """One group: where it continues, what was written of it, and why the rest was not."""

    name: str
    group: str
    dry_run: bool
    bootstrap_servers: str = Field(description="the hub, where its consumers continue")
    sources: tuple[GroupAtSource, ...] = ()
    partitions: tuple[GroupAtHub, ...] = ()
    refused: tuple[UntranslatedTopic, ...] = ()
    notes: tuple[str, ...] = ()
    records_read: int = 0

    @property
    def again(self) -> int | None:
        """How many records are read again, of all partitions; None when they were not counted."""
        counts = [it.again for it in self.partitions]
        return None if None in counts else sum(it for it in counts if it is not None)

    @property
    def topics(self) -> tuple[str, ...]:
        """The hub topics that it continues in."""
        return tuple(dict.fromkeys(it.topic for it in self.partitions))

    @property
    def done(self) -> bool:
        """Whether the hub has, or would have, every place of the group."""
        return (
            bool(self.partitions)
            and not self.refused
            and all(it.verdict in GOOD for it in self.partitions)
        )


def list_groups(config: Config, source: str | None) -> GroupsReport:
    """The groups of all sources, or of one. A cluster of which not all are known is in `failed`."""
    aliases = config.chosen(source)
    replies = ask_states(config, (HUB, *aliases))
    found = replies.ok
    failed = {alias: str(error) for alias, error in replies.failed.items()}
    failed |= ask_unlisted(config, [it for it in aliases if it in found])
    rows = []
    for alias in aliases:
        names, groups = found.get(alias, {}), config.sources[alias].groups
        synced = set(matching(names, groups.wanted, groups.unwanted))
        for name, state in names.items():
            at_hub = found.get(HUB, {}).get(name)
            rows.append(
                GroupRow(
                    source=alias,
                    group=name,
                    state=state,
                    synced=name in synced,
                    hub_state=at_hub,
                )
            )
    return GroupsReport(
        name=config.name,
        groups=tuple(sorted(rows, key=lambda row: (row.group, row.source))),
        failed={alias.strip("()"): why for alias, why in failed.items()},
    )
