"""What the sources of a hub have in common: one value, with a DECIDE where they differ. Pure."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from aggregator.config.render import dump
from aggregator.extras.importers.configs import Path, Shared, Sketch
from aggregator.features.connectors.mirror_maker_source import shown


class _Common(NamedTuple):
    """How one of several values is chosen, and what follows for those that say another one."""

    choose: Callable[[Sequence[Any]], Any]
    follows: str


def _first(values: Sequence[Any]) -> Any:
    return values[0]


def _shortest(values: Sequence[Any]) -> Any:
    return min(values, key=_millis)


def _all_patterns(values: Sequence[Any]) -> Any:
    return list(dict.fromkeys(one for value in values for one in value))


def _millis(length: str) -> int:
    return int(length[:-2]) if length.endswith("ms") else int(length[:-1]) * 1000


PARTITION_BY = ("topics", "partition_by")
KEPT = "source_partition"
"""A record keeps its partition, so hub topics grow with their sources."""
COMMON: Mapping[Path, _Common] = {
    ("topics", "sync_configs"): _Common(any, "configs of topics follow all sources"),
    ("topics", "create"): _Common(any, "missing hub topics are created for all of them"),
    ("topics", "config_exclude"): _Common(_all_patterns, "none of these is taken over from any"),
    ("topics", "refresh_interval"): _Common(_shortest, "it counts for the topics of all"),
    ("topics", "replication_factor"): _Common(max, "it counts for all new hub topics"),
    PARTITION_BY: _Common(_first, "records of all sources are dealt out so"),
    ("heartbeats",): _Common(any, "they are written for all sources"),
    ("stream", "checkpoint_interval"): _Common(_shortest, "it counts for the positions of all"),
}
OF_HUB = _Common(_first, "all records are written with it")


def settle(draft: Sketch) -> None:
    """Put into the config what all sources say alike, and one value with a DECIDE elsewhere."""
    for path, found in draft.shared.items():
        said = list(found)
        if path[0] == "hub":
            silent = set(draft.tree.get("sources", {})) - {it.alias for it in said}
            said += [Shared(alias, None, None) for alias in sorted(silent)]
        explicit = [it for it in said if it.where is not None]
        if not explicit:
            continue
        first = explicit[0].where
        assert first is not None
        values = [it.value for it in said]
        if all(it == values[0] for it in values):
            draft.put(path, values[0], first)
            continue
        common = COMMON.get(path, OF_HUB)
        chosen = common.choose([it for it in values if it is not None])
        where = next((it.where for it in explicit if it.value == chosen), None) or first
        draft.put(path, chosen, where)
        reason = (
            f"{_who(path, said)}; here there is one value for all sources of a hub, "
            f"{_text(path, chosen)}: {common.follows}"
        )
        draft.note(where, reason, decide=True)
    if draft.tree.get("topics", {}).get("partition_by") == KEPT:
        draft.put(("topics", "grow"), True, draft.came[PARTITION_BY])


def _who(path: Path, said: Sequence[Shared]) -> str:
    """Which source says what."""
    by_value: dict[str, list[str]] = {}
    for it in said:
        by = f"{it.alias} (by default)" if it.where is None else it.alias
        names = by_value.setdefault(_text(path, it.value), [])
        if by not in names:
            names.append(by)
    return ", ".join(f"{' and '.join(names)}: {value}" for value, names in by_value.items())


def _text(path: Path, value: Any) -> str:
    if value is None:
        return "nothing"
    text = value if isinstance(value, str) else dump({"x": value}).partition(":")[2]
    return " ".join(shown(path[-1], text).replace("\n- ", " ").split())
