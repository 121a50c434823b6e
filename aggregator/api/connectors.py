"""Shows and changes the sources of a running instance as connectors."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from aggregator.api.latest_status import StatusHolder
from aggregator.api.permissions import CallerError
from aggregator.config.load import AS_WRITTEN
from aggregator.config.mask import MASK, hide_passwords, is_secret
from aggregator.config.references import refers
from aggregator.config.schema import Config
from aggregator.config.values import patterns
from aggregator.engine.control.commands import Control
from aggregator.features.connectors.connector_json import SourceConnector, connector_of
from aggregator.features.connectors.connector_table import Change, ConnectorTable
from aggregator.features.connectors.describe import connector_config
from aggregator.features.connectors.plugins import validated
from aggregator.features.connectors.to_source import Translated, literal_secrets, translate
from aggregator.model.errors import ConfigError, Problem
from aggregator.model.events import Event, EventSink
from aggregator.status.command_answers import ReloadReport
from aggregator.status.schema import Status
from aggregator.store.state_store import StateStore


@dataclass(frozen=True, slots=True)
class InitialState:
    """How a connector begins: null leaves a known one as it is."""

    paused: bool | None = None
    stopped: bool = False


STATES: Mapping[str, InitialState] = {
    "RUNNING": InitialState(paused=False),
    "PAUSED": InitialState(paused=True),
    "STOPPED": InitialState(paused=True, stopped=True),
}

MOST_NOTES = 50
"""Notes of a config that are events, those about unknown keys first."""
MOST_PATTERN = 10_000
"""Characters of a pattern in a request: once compiled it is kept in memory."""


class Connectors:
    """Thread-safe. What was put over REST is kept as it was put; a source of the YAML is shown with
    the same keys. `emit` gets what has no effect of a config that is taken: answers of Connect have
    no place for it. Errors are those of `Control`, and CallerError with Connect's codes.
    """

    def __init__(self, control: Control, holder: StatusHolder, emit: EventSink) -> None:
        self._control = control
        self._holder = holder
        self._emit = emit
        self._table = ConnectorTable(StateStore.of(control.config.checkpoint))
        self._lock = threading.RLock()
        self._changes: dict[str, Change] | None = None
        self._opened = 0

    def names(self) -> list[str]:
        """All connectors, in the order of the config."""
        return list(self._control.config.sources)

    def all(self) -> list[SourceConnector]:
        """All connectors of one moment, in the order of the config."""
        config, status = self._control.config, self._holder.latest()
        return [self._connector(config, status, name) for name in config.sources]

    def get(self, name: str) -> SourceConnector:
        """One connector; CallerError (404) when there is none of this name."""
        config = self._control.config
        if name not in config.sources:
            raise CallerError(404, f"Connector {name} not found")
        return self._connector(config, self._holder.latest(), name)

    def _connector(self, config: Config, status: Status | None, name: str) -> SourceConnector:
        change = self._kept().get(name)
        if change is not None and change.config is not None:
            words = {"name": name, **change.config}
        else:
            rename = config.rename_of(name)
            template = rename if isinstance(rename, str) else ""
            words = connector_config(name, config.sources[name], template)
        shown = {key: _shown(key, value) for key, value in words.items()}
        return connector_of(name, shown, status, stopped=name in self._control.stopped)

    def create(
        self, name: str, config: Mapping[str, str], by: str, begin: InitialState
    ) -> SourceConnector:
        """Add a connector; CallerError (409) when there is one of this name."""
        self._put(name, config, by, begin, new=True)
        return self.get(name)

    def put(self, name: str, config: Mapping[str, str], by: str) -> ReloadReport:
        """Add a connector, or change one."""
        return self._put(name, config, by, InitialState())

    def patch(self, name: str, changes: Mapping[str, str | None], by: str) -> SourceConnector:
        """Change some keys of a connector's config, or with null take them out."""
        # One lock for both: who changes another key meanwhile would be undone.
        with self._lock:
            old = self.get(name).config
            config = {key: value for key, value in old.items() if key not in changes}
            config |= {key: value for key, value in changes.items() if value is not None}
            self._put(name, config, by, InitialState())
        return self.get(name)

    def remove(self, name: str, by: str) -> ReloadReport:
        """Take a connector out; what it has copied, and its positions, stay."""
        self.get(name)
        with self._lock:
            return self._control.change_source(name, None, lambda: self._keep(name, None, by))

    def take_back(self, name: str, by: str) -> ReloadReport:
        """Read a source as the config file has it, or not at all when that has none of this name.

        CallerError (404) when it is so already.
        """
        with self._lock:
            if name not in self._kept():
                raise CallerError(404, f"source {name} is as the config file has it")

            def keep() -> None:
                self._table.take_back(name, by)
                self._changes = {it: to for it, to in self._kept().items() if it != name}

            return self._control.change_source(name, AS_WRITTEN, keep)

    def validate(
        self, plugin: str, config: Mapping[str, str], may_read: Callable[[], None]
    ) -> dict[str, Any]:
        """The check of a config, as Connect answers it; `plugin` is the name of a class.

        `may_read` raises when variables and files of this machine are not to be read for the
        caller, as they are for a config that refers to some.
        """
        name = config.get("name", "connector")
        found = _read(name, config)
        more: tuple[Problem, ...] = ()
        if not found.problems:
            if refers(found.source, f"sources.{name}"):
                may_read()
            more = _by_key(name, found, self._control.problems_with(name, found.source))
        shown = {key: _shown(key, value) for key, value in config.items()}
        return validated(plugin, shown, (*found.problems, *more))

    def _put(
        self,
        name: str,
        config: Mapping[str, str],
        by: str,
        begin: InitialState,
        *,
        new: bool = False,
    ) -> ReloadReport:
        found = _read(name, config)
        with self._lock:
            if new and name in self._control.config.sources:
                raise CallerError(409, f"Connector {name} already exists")
            if found.problems:
                raise invalid(found.problems)
            try:
                report = self._control.change_source(
                    name,
                    found.source,
                    lambda: self._keep(name, config, by),
                    paused=begin.paused,
                    stopped=begin.stopped,
                    by=by,
                )
            except ConfigError as error:
                raise invalid(_by_key(name, found, error.problems)) from error
        for event in _notes_of(name, found):
            self._emit(event)
        return report

    def _kept(self) -> dict[str, Change]:
        opened = self._control.opened
        if self._changes is None or not opened or opened != self._opened:
            # While another instance writes, that one changes them.
            self._changes, self._opened = self._table.changes(), opened
        return self._changes

    def _keep(self, name: str, config: Mapping[str, str] | None, by: str) -> None:
        change = self._table.put(name, config, by)
        self._changes = {**self._kept(), name: change}


def _read(name: str, config: Mapping[str, str]) -> Translated:
    """A config of a request as a source; a pattern that is too long is among its problems."""
    found = translate(name, config)
    problems = []
    for part in ("topics", "groups"):
        for key, value in found.source.get(part, {}).items():
            texts = [value] if isinstance(value, str) else value
            long = [it for it in texts if len(it) > MOST_PATTERN]
            if any(len(it) > MOST_PATTERN for it in patterns(long)):
                path = f"{part}.{key}"
                reason = f"has a pattern of more than {MOST_PATTERN:,} characters"
                hint = "write several, with commas between them"
                problems.append(Problem(found.key_of(path) or path, reason, hint))
    return replace(found, problems=(*found.problems, *problems))


def _notes_of(name: str, found: Translated) -> list[Event]:
    """What of the config of a connector has no effect; many notes are cut short."""
    notes = sorted(found.notes.items(), key=lambda it: it[0] not in found.unknown)
    events = []
    for key, why in notes[:MOST_NOTES]:
        kind = "connector_warning" if key in found.unknown else "connector_note"
        events.append(Event(kind, f"source {name}: {key}: {why}", {"source": name}))
    if more := len(notes[MOST_NOTES:]):
        words = f"source {name}: without effect: {more} more"
        events.append(Event("connector_note", words, {"source": name}))
    return events


def invalid(problems: tuple[Problem, ...]) -> CallerError:
    """A config that is not taken, in Connect's words."""
    lines = "\n".join(map(str, problems))
    return CallerError(
        400,
        "Connector configuration is invalid and contains the following "
        f"{len(problems)} error(s):\n"
        f"{lines}\nYou can also find the above list of errors at the endpoint "
        "`/connector-plugins/{connectorType}/config/validate`",
    )


def _by_key(name: str, found: Translated, problems: tuple[Problem, ...]) -> tuple[Problem, ...]:
    """Problems of the whole config, under the keys of the connector where they are about it."""
    own = f"sources.{name}."
    renamed = []
    for it in problems:
        key = found.key_of(it.path.removeprefix(own)) if it.path.startswith(own) else ""
        renamed.append(Problem(key or it.path, it.reason, it.hint))
    return tuple(renamed)


def _shown(key: str, value: str) -> str:
    if not literal_secrets({key: value}):
        return value
    return MASK if is_secret(key) else hide_passwords(value)
