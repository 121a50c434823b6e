"""Reads the columns of a landed table, for the catalog."""

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from aggregator.store.delta import local_path

Columns = tuple[tuple[str, str], ...]
"""Names of columns and their Delta types, in the table's order."""


def columns_of(table: str) -> Columns:
    """The columns of the table at this path now; none when there is no table yet.

    And none on an object store: only Spark has its credentials. A table that cannot be read has
    none either: the tee that writes it reports that.
    """
    folder = local_path(table)
    if folder is None:
        return ()
    try:
        fields = DeltaTable(str(folder)).schema().fields
    except DeltaError:
        return ()
    return tuple((it.name, _type_of(it.type)) for it in fields)


def _type_of(kind: object) -> str:
    """`long` of a primitive; `array`, `map` and `struct` of what is composed."""
    return str(getattr(kind, "type", kind))
