"""Finds a user's `module:function` and checks, before the start, that it keeps a record's shape."""

from __future__ import annotations

import importlib
from collections.abc import Callable

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DataType

from aggregator.errors import ConfigError, Problem

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

    Raises ConfigError when it fails, or when it does not return the columns of RECORD_SCHEMA.
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
    return transform


def _types(frame: DataFrame) -> dict[str, DataType]:
    return {field.name: field.dataType for field in frame.schema.fields}


def _refusal(name: str, reason: str) -> ConfigError:
    hint = "a function DataFrame -> DataFrame over " + RECORD_SCHEMA.split(",")[0] + ", ..."
    return ConfigError([Problem("topics.transform", f"{name}: {reason}", hint)])
