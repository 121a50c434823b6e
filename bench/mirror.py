"""MirrorMaker 2, tuned as its documentation allows and as it comes; MirrorMaker 1."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence

from aggregator.datapath.jars import jars
from bench.job import BY_SIGTERM, CONSUMER, Job, Tool, java, producer, properties
from bench.measure import (
    MIRROR_1,
    THEIRS,
    THEIRS_2,
    THEIRS_4,
    THEIRS_DEFAULTS,
    THEIRS_EXACTLY,
)
from bench.ours import positions_seconds

MOST_TASKS = 8
"""MirrorMaker 2 gets a task per source partition, but for each source no more than these."""

SETTINGS: Mapping[str, str] = {
    "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
    "replication.factor": "1",
    # Nothing beside the copying of records.
    "refresh.topics.enabled": "false",
    "refresh.groups.enabled": "false",
    "sync.topic.configs.enabled": "false",
    "sync.topic.acls.enabled": "false",
    "sync.group.offsets.enabled": "false",
    "emit.heartbeats.enabled": "false",
    "emit.checkpoints.enabled": "false",
    "emit.offset-syncs.enabled": "false",
    # One broker in each cluster, and few positions to keep.
    "offset.storage.replication.factor": "1",
    "status.storage.replication.factor": "1",
    "config.storage.replication.factor": "1",
    "heartbeats.topic.replication.factor": "1",
    "offset.storage.partitions": "1",
    "status.storage.partitions": "1",
}
"""Settings of MirrorMaker 2 as a whole."""

GROUPS: Mapping[str, str] = {
    "emit.offset-syncs.enabled": "true",
    "emit.checkpoints.enabled": "true",
    "sync.group.offsets.enabled": "true",
    "refresh.groups.enabled": "true",
    # The least that they can be: a group that the copy has just passed is translated best.
    "emit.checkpoints.interval.seconds": "1",
    "sync.group.offsets.interval.seconds": "1",
    "refresh.groups.interval.seconds": "5",
    # Its default. It sends no more than ten at a time, so that at full speed there are fewer.
    "offset.lag.max": "100",
    # Where the name of the topic has the source's alias, so that it is of this run alone.
    "offset-syncs.topic.location": "target",
    "offset-syncs.topic.replication.factor": "1",
    "checkpoints.topic.replication.factor": "1",
}
"""Settings of MirrorMaker 2 for what it does about consumer groups, as quick as it can."""

REST: Mapping[str, str] = {
    "dedicated.mode.enable.internal.rest": "true",
    "listeners": "http://127.0.0.1:0",
}
"""By which several of its processes give each other tasks."""

EXACTLY_ONCE: Mapping[str, str] = {"hub.exactly.once.source.support": "enabled", **REST}
"""What its documentation asks for in addition, for exactly-once support."""


def tuned_settings(job: Job, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The properties of MirrorMaker 2, tuned."""
    settings = default_settings(job)
    settings["tasks.max"] = str(min(job.work.partitions * job.work.topics, MOST_TASKS))
    settings["hub.offset.flush.interval.ms"] = f"{positions_seconds(job) * 1000:.0f}"
    settings |= {f"hub.producer.{name}": value for name, value in producer(job).items()}
    for alias in _aliases(job):
        settings |= {f"{alias}.consumer.{name}": value for name, value in CONSUMER.items()}
    return settings | dict(extra or {})


def exactly_once_settings(job: Job) -> dict[str, str]:
    """The same with exactly-once support."""
    return tuned_settings(job, EXACTLY_ONCE)


def several_settings(job: Job) -> dict[str, str]:
    """The same for several processes that share the work."""
    return tuned_settings(job, REST)


def default_settings(job: Job) -> dict[str, str]:
    """MirrorMaker 2 as it comes: one task a source, its own producers and consumers.

    Only compression, acknowledgements and where to start are as for the others.
    """
    aliases = _aliases(job)
    settings = {"clusters": ", ".join([*aliases, "hub"]), "hub.bootstrap.servers": job.hub}
    settings |= {**SETTINGS, **(GROUPS if job.work.groups else {})}
    settings["hub.producer.compression.type"] = job.work.compression
    settings["hub.producer.acks"] = "all"
    for alias, servers in aliases.items():
        settings[f"{alias}.bootstrap.servers"] = servers
        settings[f"{alias}.consumer.auto.offset.reset"] = "earliest"
        settings[f"{alias}->hub.enabled"] = "true"
        settings[f"{alias}->hub.topics"] = ",".join(job.topics)
    return settings


def mirror_1_settings(job: Job) -> dict[str, object]:
    """The properties of MirrorMaker 1's clients, and its number of threads for each source."""
    return {
        "producer": producer(job),
        "consumer": {**CONSUMER, "group.id": job.name},
        "num.streams": min(job.work.partitions, MOST_TASKS),
    }


def _aliases(job: Job) -> dict[str, str]:
    """With the job's name, so that the internal topics of one run are not those of another."""
    return {f"{alias}-{job.name}": servers for alias, servers in job.sources.items()}


def _mirror_2(name: str, settings: Callable[[Job], Mapping[str, str]], processes: int = 1) -> Tool:
    def command(job: Job) -> list[str]:
        file = properties(job, "mirror", settings(job))
        # Both sets have some files: each once, and MirrorMaker's own first.
        files = dict.fromkeys([*jars("mirror"), *jars("broker")])
        one = [*java(job, list(files)), "org.apache.kafka.connect.mirror.MirrorMaker", str(file)]
        return one if processes == 1 else _together([one] * processes)

    return Tool(name, settings, command, BY_SIGTERM, keeps_partitions=True)


def _mirror_1_command(job: Job) -> list[str]:
    """A process for each source, as MirrorMaker 1 has one."""
    written = properties(job, "producer", {**producer(job), "bootstrap.servers": job.hub})
    options = ["--num.streams", str(min(job.work.partitions, MOST_TASKS))]
    options += ["--producer.config", str(written), "--include", job.topic]
    commands = []
    for alias, servers in job.sources.items():
        own = {**CONSUMER, "bootstrap.servers": servers, "group.id": job.name}
        command = [*java(job, jars("broker-3.9")), "kafka.tools.MirrorMaker", *options]
        commands.append([*command, "--consumer.config", str(properties(job, alias, own))])
    return _together(commands)


def _together(commands: Iterable[Sequence[str]]) -> list[str]:
    """Processes as one command, which ends all of them when it is asked to end."""
    started = [f'{shlex.join(each)} & pids="$pids $!"' for each in commands]
    ends = "trap 'kill $pids; wait; exit 0' TERM; wait"
    return ["sh", "-c", "\n".join([*started, ends])]


TOOLS = (
    _mirror_2(THEIRS, tuned_settings),
    _mirror_2(THEIRS_2, several_settings, 2),
    _mirror_2(THEIRS_4, several_settings, 4),
    _mirror_2(THEIRS_EXACTLY, exactly_once_settings),
    _mirror_2(THEIRS_DEFAULTS, default_settings),
    Tool(MIRROR_1, mirror_1_settings, _mirror_1_command, BY_SIGTERM),
)
