"""What a reloaded config changes: what applies at once, and what waits for a restart. Pure."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from aggregator.config.schema import ClusterConfig, Config, SourceConfig
from aggregator.model.values import Route

FIXED = ("name", "hub", "checkpoint", "spark", "api", "topics.quarantine")
"""What a running instance is built on."""
OTHER_RUN = ("name", "checkpoint.path")
"""With another value of these it is another aggregation: nothing of its config is taken over."""
OF_EVERY_LANE = ("stream.lanes", "stream.path")
"""What decides which lanes there are, and how each of them copies records."""


@dataclass(frozen=True, slots=True)
class Reload:
    """The difference of two configs.

    `keys` are the paths of what differs, be it a file that is named there; `refused` those that
    cannot change while it runs. Of `added`, `removed` and `changed` sources the last must be read
    in another way. `every_lane`: all lanes have to restart.
    """

    keys: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    every_lane: bool = False

    def leaving(self, config: Config) -> frozenset[str]:
        """Sources of the old config whose lanes have to end before the new one is in force."""
        if self.every_lane:
            return frozenset(config.sources)
        return frozenset((*self.removed, *self.changed))


def until_restart(
    before: Config, after: Config, fixed: tuple[str, ...] = FIXED
) -> tuple[Config, tuple[str, ...]]:
    """The config to take over, and the paths of what waits for a restart.

    That is `after` with all that is `fixed` as it is in `before`: a password
    of the hub that was renewed must not keep a source from its own. Of OTHER_RUN nothing waits.
    """
    differing = _differing(before.model_dump(), after.model_dump(), ())
    waiting = tuple(key for key in differing if under(key, fixed) and not under(key, OTHER_RUN))
    kept: dict[str, set[str]] = {}
    for key in waiting:
        part, name = key.split(".")[:2]
        kept.setdefault(part, set()).add(name)
    parts = {}
    for part, names in kept.items():
        old, new = getattr(before, part), getattr(after, part)
        if "kafka" in names:
            # Settings keep the content of their files: an old password opens no new store.
            old, new, names = new, old, type(old).model_fields.keys() - names
        parts[part] = new.model_copy(update={name: getattr(old, name) for name in names})
    return after.model_copy(update=parts), waiting


def plan_reload(before: Config, after: Config) -> Reload:
    """Compare the config in force with the one that was read again."""
    values = tuple(_differing(before.model_dump(), after.model_dump(), ()))
    files = tuple(it for it in _other_files(before, after) if it not in values)
    keys = (*values, *files)
    both = before.sources.keys() & after.sources.keys()
    return Reload(
        keys,
        # New connections to the hub read its files as they are.
        tuple(key for key in values if under(key, FIXED)),
        tuple(alias for alias in after.sources if alias not in both),
        tuple(alias for alias in before.sources if alias not in both),
        tuple(
            alias
            for alias in after.sources
            if alias in both and not _read_alike(before.sources[alias], after.sources[alias])
        ),
        any(under(key, OF_EVERY_LANE) for key in keys) or before.hub.files != after.hub.files,
    )


def id_notes(
    before: Config, routes: Iterable[Route], hub_topics: Collection[str]
) -> tuple[str, ...]:
    """What to know of hub topics whose records get ids of another registry from now on.

    `routes` are those of the config that follows `before`, and `hub_topics` what the hub has: only
    there are older records.
    """
    notes = []
    for route in routes:
        old = before.sources.get(route.cluster)
        if old is None or route.hub_topic not in hub_topics:
            continue
        translated = old.schemas.registry is not None and (
            before.topics.rules_for(route.hub_topic).schemas == "translate"
        )
        if translated != (route.schemas == "translate"):
            then, now = ("the hub", route.cluster) if translated else (route.cluster, "the hub")
            notes.append(
                f"topics.schemas of {route.hub_topic}: what comes from {route.cluster} from now on "
                f"has ids of the registry of {now}, and what is there of {then}: nothing in "
                "a record says which"
            )
    return tuple(notes)


def same_connection(before: SourceConfig, after: SourceConfig) -> bool:
    """Whether two configs of a source reach one cluster in the same way, by the same files."""
    keys = ("bootstrap_servers", "kafka", "consumer", "files")
    return all(getattr(before, key) == getattr(after, key) for key in keys)


def _read_alike(before: SourceConfig, after: SourceConfig) -> bool:
    # Ids that its records have in flight are those of its registry.
    own = (before.tasks, before.schemas) == (after.tasks, after.schemas)
    return own and same_connection(before, after)


def under(key: str, parts: tuple[str, ...]) -> bool:
    """Whether a path of the config is one of these, or lies in one."""
    return any(key == part or key.startswith(f"{part}.") for part in parts)


def _other_files(before: Config, after: Config) -> Iterator[str]:
    """Settings of the same name whose files hold something else."""
    pairs: list[tuple[str, ClusterConfig, ClusterConfig]] = [("hub", before.hub, after.hub)]
    pairs += [
        (f"sources.{alias}", before.sources[alias], after.sources[alias])
        for alias in after.sources
        if alias in before.sources
    ]
    for path, old, new in pairs:
        for name in sorted(old.files.keys() | new.files.keys()):
            if old.files.get(name) != new.files.get(name):
                yield f"{path}.kafka.{name}"


def _differing(before: Any, after: Any, path: tuple[str, ...]) -> Iterator[str]:
    """Paths of what differs; never a value, which may be a secret."""
    if before == after:
        return
    if not isinstance(before, dict) or not isinstance(after, dict):
        yield ".".join(path)
        return
    for key in dict.fromkeys([*before, *after]):
        if key not in before or key not in after:
            yield ".".join((*path, str(key)))
        else:
            yield from _differing(before[key], after[key], (*path, str(key)))
