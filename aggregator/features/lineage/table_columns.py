"""Reads the columns of a landed table, for the catalog."""

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from aggregator.features.lineage.lineage_jobs import FOLDER, Dataset

Columns = tuple[tuple[str, str], ...]
"""Names of columns and their Delta types, in the table's order."""


def columns_of(dataset: Dataset) -> Columns:
    """The columns of a table in a folder now; none when there is no table yet.

    And none of a topic, or on an object store, whose credentials only Spark has. A table that
    cannot be read has none either: the tee that writes it reports that.
    """
    if dataset.namespace != FOLDER:
        return ()
    try:
        fields = DeltaTable(dataset.name).schema().fields
    except DeltaError:
        return ()
    return tuple((it.name, _type_of(it.type)) for it in fields)


def _type_of(kind: object) -> str:
    """`long` of a primitive; `array`, `map` and `struct` of what is composed."""
    return str(getattr(kind, "type", kind))
