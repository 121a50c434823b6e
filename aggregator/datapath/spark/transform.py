"""Finds a user's `module:function` and checks, before the start, that it keeps a record's shape."""

import importlib
from collections.abc import Callable
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DataType

from aggregator.model.errors import ConfigError, Problem

RECORD_BY_RECORD = frozenset(
    {"Project", "Filter", "SubqueryAlias", "LocalRelation", "LogicalRDD", "Relation"}
)
"""Nodes of an analyzed plan that a transform may have (Spark 4.2.0)."""

Transform = Callable[[DataFrame], DataFrame]

RECORD_SCHEMA = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
    "headers array<struct<key:string,value:binary>>"
)
"""Columns that a transform receives and must return, with these types, in any order."""


def load_transform(name: str) -> Transform:
    """The function that `module:function` names. Raises ConfigError naming what is missing."""
    module_name, _, function_name = name.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise _refusal(name, f"cannot import '{module_name}': {error}") from error
    function = getattr(module, function_name, None)
    if not callable(function):
        raise _refusal(name, f"'{module_name}' has no function '{function_name}'")
    return function  # type: ignore[no-any-return]


def check_transform(spark: SparkSession, name: str) -> Transform:
    """Load a transform and run it on an empty frame.

    Raises ConfigError when it fails, when it does not return the columns of RECORD_SCHEMA, or when
    it does more than to filter records and change them one by one.
    """
    transform = load_transform(name)
    empty = spark.createDataFrame([], RECORD_SCHEMA)
    try:
        outcome = transform(empty)
    except (PySparkException, ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise _refusal(name, f"fails on an empty frame: {error}") from error
    if not isinstance(outcome, DataFrame):
        raise _refusal(name, f"returns {type(outcome).__name__}, not a DataFrame")
    wanted, got = _types(empty), _types(outcome)
    wrong = [
        f"{column} {got[column].simpleString() if column in got else 'is missing'}"
        f"{'' if column not in got else f' instead of {kind.simpleString()}'}"
        for column, kind in wanted.items()
        if got.get(column) != kind
    ]
    if wrong:
        raise _refusal(name, f"must keep the columns of a record: {', '.join(wrong)}")
    if others := sorted(_others(outcome._jdf.queryExecution().analyzed())):
        raise _refusal(
            name,
            "may only filter records and change them one by one, by column expressions: it has "
            + ", ".join(others),
        )
    return transform


def _others(plan: Any) -> set[str]:
    """The parts of a logical plan that do not take record by record, in order, in the JVM.

    A task knows where it is by the record that it handed out last. What redistributes rows, keeps
    them, or sends them through Python would take them away from it.
    """
    found = set() if plan.nodeName() in RECORD_BY_RECORD else {str(plan.nodeName())}
    for expression in _each(plan.expressions()):
        found |= _python_in(expression)
    for child in _each(plan.children()):
        found |= _others(child)
    return found


def _python_in(expression: Any) -> set[str]:
    name = str(expression.getClass().getSimpleName())
    found = {name} if "Python" in name else set()
    for child in _each(expression.children()):
        found |= _python_in(child)
    return found


def _each(scala: Any) -> list[Any]:
    return [scala.apply(at) for at in range(scala.size())]


def _types(frame: DataFrame) -> dict[str, DataType]:
    return {field.name: field.dataType for field in frame.schema.fields}


def _refusal(name: str, reason: str) -> ConfigError:
    hint = "a function DataFrame -> DataFrame over " + RECORD_SCHEMA.split(",")[0] + ", ..."
    return ConfigError([Problem("topics.transform", f"{name}: {reason}", hint)])
