"""The client of a data catalog: events of jobs and their runs, by openlineage-python."""

import uuid
from datetime import UTC, datetime
from typing import Any

from aggregator import __version__
from aggregator.config.schema import Config
from aggregator.features.lineage.dataset_fields import Columns, TopicFields, columns_of
from aggregator.features.lineage.lineage_jobs import Dataset, LineageJob
from aggregator.features.lineage.lineage_topic import KIND, TRANSPORT, LineageTopic
from aggregator.model.errors import ConfigError, Problem

PRODUCER = f"urn:kafka-aggregator:{__version__}"
HINT = "pip install 'kafka-aggregator[lineage]'"


class Catalog:
    """Sends events of one run of the aggregation of a config, for one thread.

    Each job of it has a run of its own, whose parent is that of the aggregation. ConfigError when
    the package is not installed, or has no such transport.
    """

    def __init__(self, config: Config) -> None:
        try:
            from openlineage.client.transport import get_default_factory
        except ImportError as error:
            missing = Problem(TRANSPORT, "needs the package openlineage-python", HINT)
            raise ConfigError([missing]) from error
        self._namespace = config.lineage.namespace
        self._aggregation = config.name
        self._parent_run = str(uuid.uuid4())
        self._runs: dict[str, str] = {}
        self._fields = TopicFields(config)
        settings = dict(config.lineage.transport)
        try:
            if settings["type"] == KIND:
                key = f"run:{self._namespace}/{self._aggregation}"
                self._transport: Any = LineageTopic(settings, config.hub, key)
            else:
                # Its own client would mix in what the environment and files of the folder say.
                self._transport = get_default_factory().create(settings)
        except ConfigError:
            raise
        except Exception as error:  # each transport has its own way to refuse its settings
            reason = str(error) or type(error).__name__
            raise ConfigError([Problem(TRANSPORT, reason, "see docs/lineage.md")]) from error

    @property
    def schema_error(self) -> str:
        """Why schemas of topics are not known, or empty."""
        return self._fields.error

    def send(self, state: str, job: LineageJob) -> None:
        """Send the event of a job whose run is now START, RUNNING or COMPLETE.

        Raises whatever the transport raises.
        """
        self._transport.emit(self._event(state, job))
        if state == "COMPLETE":
            # Not before it was sent: one that is sent again is of the same run.
            del self._runs[job.name]

    def close(self) -> None:
        """Let go of connections and files."""
        self._transport.close()

    def _event(self, state: str, job: LineageJob) -> Any:
        from openlineage.client.event_v2 import (
            InputDataset,
            Job,
            OutputDataset,
            Run,
            RunEvent,
            RunState,
        )
        from openlineage.client.generated import job_type_job, parent_run

        run_id = self._runs.setdefault(job.name, str(uuid.uuid4()))
        parent = parent_run.ParentRunFacet(
            run=parent_run.Run(runId=self._parent_run),
            job=parent_run.Job(namespace=self._namespace, name=self._aggregation),
            producer=PRODUCER,
        )
        kind = job_type_job.JobTypeJobFacet(
            processingType="STREAMING", integration="SPARK", jobType="JOB", producer=PRODUCER
        )
        return RunEvent(
            eventType=RunState(state),
            eventTime=datetime.now(UTC).isoformat(),
            run=Run(run_id, facets={"parent": parent}),
            job=Job(self._namespace, job.name, facets={"jobType": kind}),
            inputs=[self._dataset(InputDataset, it, state) for it in job.inputs],
            outputs=[self._dataset(OutputDataset, job.output, state)],
            producer=PRODUCER,
        )

    def _dataset(self, kind: type[Any], it: Dataset, state: str) -> Any:
        """An input or output with its fields as far as they are known.

        At the end of a run the catalog knows them: a stop does not wait for tables and registries.
        """
        found = () if state == "COMPLETE" else columns_of(it) or self._fields.fields_of(it)
        return kind(it.namespace, it.name, facets=_schema_facet(found))


def _schema_facet(columns: Columns) -> dict[str, Any]:
    from openlineage.client.generated import schema_dataset

    if not columns:
        return {}
    fields = [
        schema_dataset.SchemaDatasetFacetFields(name, kind, ordinal_position=at)
        for at, (name, kind) in enumerate(columns, 1)
    ]
    return {"schema": schema_dataset.SchemaDatasetFacet(fields, producer=PRODUCER)}
