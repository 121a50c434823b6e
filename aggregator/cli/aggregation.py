"""An aggregation as commands see it: the running instance, asked over HTTP, else its tables.

Each method asks the instance first. Where none answers, a question is answered by the tables beside
the checkpoint, and a change is noted there for the next start; one that runs and cannot be asked is
named, and nothing is changed.
"""

from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from typing import Any, NoReturn, TypeVar
from urllib.parse import quote, urlencode

import typer

from aggregator.cli.options import check_source
from aggregator.cli.render import print_note
from aggregator.cli.running import Absent, Document, ask_running, command_running, running_status
from aggregator.config.load import AS_WRITTEN, Added
from aggregator.config.schema import Config
from aggregator.features.backfill.backfill_report import (
    BackfillReport,
    BackfillsReport,
    backfill_status,
)
from aggregator.features.backfill.order_stopped import (
    are_busy,
    cancel_stopped,
    order_stopped,
    refuse_moves,
    table_of,
)
from aggregator.features.backfill.ranges import BackfillRequest
from aggregator.features.completeness.wait import complete_topic_of
from aggregator.features.connectors.connector_table import Change, ConnectorTable
from aggregator.features.positions.change_report import MovesReport
from aggregator.features.positions.targets import MoveRequest
from aggregator.features.timeline.past_queries import read_events
from aggregator.features.timeline.timeline_report import EventsReport
from aggregator.model.errors import AggregatorError
from aggregator.model.events import EventSink
from aggregator.model.values import Part
from aggregator.status.command_answers import ReloadReport, SourceControl, source_control
from aggregator.status.completeness import CompleteTopic
from aggregator.status.from_checkpoint import CheckpointView, checkpoint_view, stopped_lag
from aggregator.status.lag import LagReport
from aggregator.status.schema import Status
from aggregator.store.controls import Controls, to_resume
from aggregator.store.lease.lock import for_the_next, refuse_if_held
from aggregator.store.state_store import StateStore

BY = "command line"
Other = TypeVar("Other")
NEXT = "nothing runs: it holds from the next start on"


class StoppedStatus(CheckpointView):
    """What the checkpoint says, and why no instance was asked; `is_there`: one runs."""

    reason: str = ""
    is_there: bool = False


class Aggregation:
    """One aggregation. Raises CommandError and HeldError where an instance refuses a change.

    `written` says where an instance is asked; `whole`, with what was changed of the sources at run
    time, is loaded only where none answers: it takes a table, whose store may be away meanwhile.
    `emit` gets the events of what is done here, as there is no instance that does it.
    """

    def __init__(self, written: Config, whole: Callable[[], Config], emit: EventSink) -> None:
        self._written = written
        self._whole = whole
        self._place = written.checkpoint
        self._emit = emit

    @property
    def config(self) -> Config:
        """The whole config. Raises CheckpointError as well."""
        return self._whole()

    def ask(
        self, path: str, kind: type[Document], otherwise: Callable[[Absent], Other]
    ) -> Document | Other:
        """What the instance answers, else what `otherwise` makes of why there is none."""
        found = ask_running(self._written, path, kind)
        return otherwise(found) if isinstance(found, Absent) else found

    def change(
        self,
        method: str,
        path: str,
        kind: type[Document],
        otherwise: Callable[[Absent], Document],
        body: Any = None,
    ) -> Document:
        """Have the instance do something, else do what `otherwise` does."""
        found = command_running(self._written, method, path, kind, body)
        return otherwise(found) if isinstance(found, Absent) else found

    def status(self) -> Status | StoppedStatus:
        """What runs, or where it stopped."""
        found = running_status(self._written)
        if isinstance(found, Absent):
            view = checkpoint_view(self.config).model_dump()
            return StoppedStatus(**view, reason=found.reason, is_there=found.is_there)
        return found

    def runs(self) -> bool:
        """Whether an instance answers."""
        return not isinstance(running_status(self._written), Absent)

    def lag(self) -> LagReport:
        """The lag, with the log ends that are known."""
        return self.ask("/api/lag", LagReport, lambda _: stopped_lag(self.config))

    def events(
        self,
        since: datetime,
        until: datetime,
        *,
        source: str | None,
        kind: str | None,
        limit: int,
        after: int = 0,
    ) -> EventsReport:
        """The newest events of a span; the instance has those as well that are not kept yet."""
        asked = {"since": since.isoformat(), "until": until.isoformat(), "limit": str(limit)}
        wanted = {"source": source, "kind": kind}
        asked |= {name: value for name, value in wanted.items() if value is not None}
        return self.ask(
            f"/api/events?{urlencode({**asked, 'after': str(after)})}",
            EventsReport,
            lambda _: read_events(
                self.config, since, until, source=source, kind=kind, after=after, limit=limit
            ),
        )

    def complete(self, topic: str, source: str | None) -> CompleteTopic | None:
        """How far a hub topic is complete: of one source, or of all; None: nothing is claimed."""
        status = running_status(self._written)
        if not isinstance(status, Absent) and status.completeness is not None:
            for it in status.completeness.topics:
                if (it.topic, it.source) == (topic, source):
                    return it
        return complete_topic_of(self.config, topic, source)

    def changes(self) -> dict[str, Change]:
        """What was added, changed or removed of the sources at run time, by their aliases."""
        return self._connectors.changes()

    def paused(self) -> Collection[str]:
        """The sources that are paused, as the table says."""
        return self._controls.read().sources

    def pause(self, alias: str, part: Part | None, *, paused: bool) -> SourceControl:
        """Pause or resume a source, or a part of one."""
        path = f"/api/sources/{alias}"
        if part is not None:
            path += f"/topics/{quote(part.topic, safe='')}"
        path += "/pause" if paused else "/resume"
        if part is not None and part.partition is not None:
            path += f"?partition={part.partition}"

        def note(_: Absent) -> SourceControl:
            check_source(self.config, alias)
            with for_the_next(self._place, print_note):
                self._note_pause(alias, part, paused=paused)
                now = self._controls.read()
            return source_control(self.config.name, alias, part, now.sources, now.parts)

        return self.change("PUT", path, SourceControl, note)

    def _note_pause(self, alias: str, part: Part | None, *, paused: bool) -> None:
        before = self._controls.read()
        if part is None:
            if (alias in before.sources) != paused:
                self._controls.put(alias, paused=paused, by=BY)
        elif not paused:
            if again := to_resume(part, before.parts):
                self._controls.put_parts(again, paused=False, by=BY)
        elif part not in before.parts:
            self._controls.put_parts([part], paused=True, by=BY)

    def reload(self) -> ReloadReport:
        """Have the instance read its config again. AggregatorError where there is none."""
        return self.change("POST", "/api/reload", ReloadReport, self._refusal_to("reload"))

    def restart(self, alias: str) -> SourceControl:
        """Have the instance start the lanes of a source again. AggregatorError as `reload`."""
        path = f"/api/sources/{alias}/restart"
        return self.change("PUT", path, SourceControl, self._refusal_to("restart"))

    def _refusal_to(self, word: str) -> Callable[[Absent], NoReturn]:
        def refuse(found: Absent) -> NoReturn:
            refuse_if_held(self._place, print_note)
            raise AggregatorError(f"nothing to {word}: {found.reason}")

        return refuse

    def put_source(
        self, alias: str, connector: Mapping[str, str], check: Callable[[], object]
    ) -> ReloadReport:
        """Add a source, or change the whole of one, in the words of a connector.

        `check` raises unless the config is right with it: an instance sees to that itself.
        """

        def note(_: Absent) -> ReloadReport:
            was = self.config
            check()
            with for_the_next(self._place, print_note):
                self._connectors.put(alias, connector, BY)
            return _noted(was, alias, stays=True)

        body = {"config": connector}
        return self.change("PUT", f"/api/sources/{alias}", ReloadReport, note, body)

    def remove_source(self, alias: str) -> ReloadReport:
        """Take a source out."""

        def note(_: Absent) -> ReloadReport:
            was = self.config
            check_source(was, alias)
            with for_the_next(self._place, print_note):
                self._connectors.put(alias, None, BY)
            return _noted(was, alias, stays=False)

        return self.change("DELETE", f"/api/sources/{alias}", ReloadReport, note)

    def reset_source(self, alias: str, load: Callable[[Added], Config]) -> ReloadReport:
        """Take back what was changed of a source; `load` gives the config without it."""

        def note(_: Absent) -> ReloadReport:
            was = self.config
            with for_the_next(self._place, print_note):
                if alias not in self.changes():
                    raise typer.BadParameter(f"source {alias} is as the config file has it")
                # As a whole it has to be right without it.
                after = load({alias: AS_WRITTEN})
                self._connectors.take_back(alias, BY)
            return _noted(was, alias, stays=alias in after.sources)

        return self.change("PUT", f"/api/sources/{alias}/reset", ReloadReport, note)

    def backfills(self) -> BackfillsReport:
        """All backfills that were ordered."""

        def kept(_: Absent) -> BackfillsReport:
            known = tuple(map(backfill_status, table_of(self.config).load().values()))
            return BackfillsReport(name=self.config.name, running=False, backfills=known)

        return self.ask("/api/backfills", BackfillsReport, kept)

    def order_backfill(self, request: BackfillRequest, *, dry_run: bool) -> BackfillReport:
        """Order a backfill, or with `dry_run` only say what it would read."""

        def note(_: Absent) -> BackfillReport:
            order, ordered = order_stopped(self.config, request, BY, print_note, dry_run=dry_run)
            return order.report(self.config, ordered, running=False)

        body = {**request.model_dump(), "dry_run": dry_run}
        return self.change("POST", "/api/backfills", BackfillReport, note, body)

    def cancel_backfill(self, name: str) -> BackfillReport:
        """Read no more of a backfill."""

        def note(_: Absent) -> BackfillReport:
            shown = backfill_status(cancel_stopped(self.config, name, print_note))
            return BackfillReport(name=self.config.name, running=False, backfill=shown)

        return self.change("PUT", f"/api/backfills/{name}/cancel", BackfillReport, note)

    def move(self, request: MoveRequest, *, dry_run: bool) -> MovesReport:
        """Set positions, or with `dry_run` only say what that would do."""

        def set_here(_: Absent) -> MovesReport:
            # Not even shown: an instance there has other positions than the checkpoint.
            refuse_if_held(self._place, print_note)
            from aggregator.features.positions.proposal import propose
            from aggregator.features.positions.set_stopped import set_positions

            if dry_run:
                return propose(self.config, request).report(
                    self.config, dry_run=True, running=False
                )
            if are_busy(self.config):
                refuse_moves(self.config, propose(self.config, request).plan)
            return set_positions(self.config, request, self._emit)

        body = {**request.model_dump(), "dry_run": dry_run}
        return self.change("POST", "/api/positions", MovesReport, set_here, body)

    @property
    def _controls(self) -> Controls:
        return Controls(StateStore.of(self._place))

    @property
    def _connectors(self) -> ConnectorTable:
        return ConnectorTable(StateStore.of(self._place))


def _noted(before: Config, alias: str, *, stays: bool) -> ReloadReport:
    """What a change of a source does from the next start on; `before` is the config without it."""
    was = alias in before.sources
    return ReloadReport(
        name=before.name,
        keys=(f"sources.{alias}",),
        added=(alias,) if stays and not was else (),
        removed=(alias,) if was and not stays else (),
        notes=(NEXT,),
    )
