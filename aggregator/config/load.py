"""Loads YAML, `--set` and references as one typed tree, or reports every problem at once."""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError

from aggregator.config import checks
from aggregator.config.allowed import Allowed, allowed_of, named_by, not_allowed
from aggregator.config.keys import Shape, node_at, options
from aggregator.config.overlay import overlay
from aggregator.config.references import refers, resolve
from aggregator.config.schema import CheckpointConfig, Config
from aggregator.config.schema_errors import takes_none, translate
from aggregator.config.topics import TopicOverride
from aggregator.config.values import map_at
from aggregator.config.yaml_text import parse_yaml
from aggregator.model.errors import ConfigError, Problem

_MAPS = frozenset(found.path[-1] for found in options() if found.shape is Shape.SETTINGS)


Added = Mapping[str, Mapping[str, Any] | None]
"""Sources that were added at run time, in the form of the YAML; None for one removed."""
NOTHING: Added = MappingProxyType({})
AS_WRITTEN: Mapping[str, Any] = MappingProxyType({})
"""In the place of a source: it is again what the YAML says of it, or is no more."""


def load(
    path: Path | None,
    sets: Sequence[str] = (),
    env: Mapping[str, str] = os.environ,
    added: Added = NOTHING,
) -> Config:
    """The config in a YAML file, with `--set` values laid over it and references resolved.

    What was `added` lies between the two. Without a path the config consists of `sets` alone. A
    relative `${file:PATH}` starts at the folder of the config file. Raises ConfigError with every
    problem found, not only the first.
    """
    if path is None:
        return load_text("", sets, env, added=added)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        problem = Problem("", f"cannot read it: {error.strerror}", "give the config with -c FILE")
        raise ConfigError([problem], str(path)) from error
    except UnicodeDecodeError as error:
        raise ConfigError([Problem("", "is not UTF-8 text")], str(path)) from error
    return load_text(text, sets, env, folder=path.parent, source=str(path), added=added)


def checkpoint_of(
    path: Path | None, sets: Sequence[str], env: Mapping[str, str]
) -> CheckpointConfig | None:
    """Where the checkpoint of a config is, whatever else is wrong with it; None when unknown.

    For what has to be known before the config is whole; never fails.
    """
    try:
        text = "" if path is None else path.read_text(encoding="utf-8-sig")
        data, _ = parse_yaml(text)
        tree: dict[str, Any] = data if isinstance(data, dict) else {}
        overlay(tree, [it for it in sets if it.startswith("checkpoint.")])
        part = tree.get("checkpoint") or {}
        found, problems, _ = resolve(part, env, path.parent if path is not None else Path())
        return None if problems else CheckpointConfig.model_validate(found)
    except (OSError, UnicodeDecodeError, ValidationError):
        return None


def load_text(
    text: str,
    sets: Sequence[str] = (),
    env: Mapping[str, str] = os.environ,
    *,
    folder: Path = Path(),
    source: str = "",
    added: Added = NOTHING,
) -> Config:
    """As `load`, for YAML text; `folder` is where relative files are, `source` names the text."""
    data, problems = parse_yaml(text)
    if data is None and problems:
        raise ConfigError(problems, source)
    if not isinstance(data, dict | None):
        reason, hint = "is not a map of settings", "begin with hub: and sources:"
        raise ConfigError([Problem("", reason, hint)], source)
    written: dict[str, Any] = data or {}
    tree = _with_added(written, added)
    problems += overlay(tree, sets)
    limits = _limits(written, tree, added, env, folder)
    whole, more, failed = resolve(tree, env, folder, limits=limits)
    problems += more
    for path, allowed in limits.items():
        problems += not_allowed(whole["sources"][path.partition(".")[2]], path, allowed)
    known = {problem.path for problem in problems}
    config, found = _checked(whole, failed, known)
    own = {f"sources.{alias}": source for alias, source in added.items()}
    referring = [path for path, source in own.items() if refers(source, path)]
    if found and referring:
        blank, _, _ = resolve(tree, env, folder, blank=referring, limits=limits)
        found = _worth_reporting(found, _checked(blank, failed, known)[1], referring)
    problems += found
    if problems or config is None:
        # Not chained to pydantic's error: that one quotes values, and a value may be a secret.
        raise ConfigError(_in_order(problems), source)
    return config


def _checked(
    tree: dict[str, Any], failed: set[str], known: set[str]
) -> tuple[Config | None, list[Problem]]:
    """The config of a tree, or what is wrong with it.

    Nothing about the paths that `failed`, and one problem each of those that are `known`.
    """
    problems: list[Problem] = []
    tree = _without_nothing(tree, (), problems)
    config, more = _typed(tree)
    problems += [problem for problem in more if problem.path not in failed]
    known = known | {problem.path for problem in problems}
    semantic = [problem for problem in checks.problems(tree) if problem.path not in failed]
    problems += [problem for problem in semantic if problem.path not in known]
    return config, problems


def _worth_reporting(
    found: list[Problem], blank: list[Problem], referring: Sequence[str]
) -> list[Problem]:
    """The problems `found` in sources that were added, without what their references stand for.

    A user who may add or check a source gives the reference, but may have no right to see the
    value: a problem that changes when the values are `blank` is reported without its words.
    """
    same = set(blank)
    own = tuple(f"{path}." for path in referring)
    return [
        it
        if it in same or not it.path.startswith(own)
        else Problem(it.path, "is not right, by the value of ${...}", "its value is not shown")
        for it in found
    ]


def _with_added(tree: dict[str, Any], added: Added) -> dict[str, Any]:
    sources = tree.get("sources") or {}
    added = {alias: source for alias, source in added.items() if source is not AS_WRITTEN}
    if not added or not isinstance(sources, dict):
        return tree
    kept = {alias: source for alias, source in sources.items() if alias not in added}
    more = {alias: dict(source) for alias, source in added.items() if source is not None}
    return {**tree, "sources": {**kept, **more}}


def _limits(
    written: Mapping[str, Any],
    tree: Mapping[str, Any],
    added: Added,
    env: Mapping[str, str],
    folder: Path,
) -> Mapping[str, Allowed]:
    """The paths of sources that were added, and what these may refer to.

    What the config file names, also of a source that was changed meanwhile, may be named again.
    """
    new = [alias for alias, source in added.items() if source]
    if not new or not isinstance(tree.get("sources"), dict):
        return {}
    own = {it: source for it, source in tree["sources"].items() if it not in added}
    free = ({**tree, "sources": own}, written)
    named = {name for it in free for name in named_by(resolve(it, env, folder)[0])}
    references, _, _ = resolve(map_at(tree, "api").get("references"), env, folder)
    return dict.fromkeys(
        (f"sources.{alias}" for alias in new), allowed_of(references, folder, named)
    )


def _typed(tree: dict[str, Any]) -> tuple[Config | None, list[Problem]]:
    """The typed tree, or what the types refuse; overrides are checked one by one."""
    problems: list[Problem] = []
    topics = map_at(tree, "topics")
    if overrides := map_at(topics, "overrides"):
        good: dict[str, Any] = {}
        for hub_topic, keys in overrides.items():
            try:
                rules = TopicOverride.model_validate(keys)
            except ValidationError as error:
                problems += translate(error, ("topics", "overrides", hub_topic))
            else:
                good[hub_topic] = rules.model_dump(exclude_unset=True)
        tree = {**tree, "topics": {**topics, "overrides": good}}
    try:
        return Config.model_validate(tree), problems
    except ValidationError as error:
        return None, problems + translate(error)


def _without_nothing(
    tree: dict[str, Any], path: tuple[str, ...], problems: list[Problem]
) -> dict[str, Any]:
    """The tree without keys that have no value, as in `kafka:` with every line below commented out.

    A setting without a value is a problem, since empty text means something to Kafka.
    """
    kept: dict[str, Any] = {}
    free = bool(path) and path[-1] in _MAPS and node_at(path) is None
    model = node_at(path)
    for key, value in tree.items():
        if isinstance(value, dict):
            kept[key] = _without_nothing(value, (*path, key), problems)
        elif value is not None:
            kept[key] = value
        elif free:
            reason, hint = "has no value", 'write "" for empty text'
            problems.append(Problem(".".join((*path, key)), reason, hint))
        elif model is None:
            kept[key] = {}
        elif key not in model.model_fields or takes_none(model.model_fields[key]):
            kept[key] = None
    return kept


def _in_order(problems: Iterable[Problem]) -> list[Problem]:
    """The problems in the order of the schema's parts; what has no path first."""
    parts = list(Config.model_fields)

    def place(problem: Problem) -> int:
        part = problem.path.split(".")[0]
        return parts.index(part) if part in parts else -1 if not part else len(parts)

    return sorted(dict.fromkeys(problems), key=place)
