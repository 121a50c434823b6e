"""The result of an import as a document: configs, what was not taken over, what to set."""

from typing import Any

from pydantic import Field

from aggregator.extras.importers.import_yaml import Finished
from aggregator.status.schema import Document


class NoteRow(Document):
    """A setting of the old tool that has no counterpart, and why."""

    file: str
    key: str
    reason: str
    decide: bool = Field(description="something is lost or another one without it")


class SecretRow(Document):
    """A secret that the config refers to: to be set in this environment variable."""

    variable: str
    file: str
    key: str


class ImportedConfig(Document):
    """The config of one hub. `written` is the file that it is in, "" when it was only shown."""

    name: str
    target: str
    tool: str
    written: str = ""
    config: dict[str, Any]
    notes: tuple[NoteRow, ...] = ()
    secrets: tuple[SecretRow, ...] = ()


def document_of(found: Finished, written: str = "") -> ImportedConfig:
    """A config that was made, as a document."""
    return ImportedConfig(
        name=found.name,
        target=found.target,
        tool=found.tool,
        written=written,
        config=dict(found.tree),
        notes=tuple(
            NoteRow(file=it.where.file, key=it.where.key, reason=it.reason, decide=it.decide)
            for it in found.notes
        ),
        secrets=tuple(
            SecretRow(variable=it.name, file=it.where.file, key=it.where.key)
            for it in found.secrets
        ),
    )
