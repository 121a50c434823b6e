"""A user's transform is found and tried out before anything starts."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from aggregator.datapath.spark.transform import check_transform
from aggregator.model.errors import EXIT_CONFIG, ConfigError
from support import transforms

PLACE = "support.transforms"


def test_a_good_transform_is_returned(spark: SparkSession) -> None:
    name = f"{PLACE}:only_even_in_capitals"
    assert check_transform(spark, name) is transforms.only_even_in_capitals


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("no.such.module:f", "cannot import 'no.such.module': No module named 'no'"),
        (f"{PLACE}:missing", f"'{PLACE}' has no function 'missing'"),
        (f"{PLACE}:NO_FUNCTION", f"'{PLACE}' has no function 'NO_FUNCTION'"),
        (f"{PLACE}:unknown_column", "fails on an empty frame: "),
        (f"{PLACE}:nothing", "returns NoneType, not a DataFrame"),
        (f"{PLACE}:without_headers", "must keep the columns of a record: headers is missing"),
        (f"{PLACE}:value_as_text", "columns of a record: value string instead of binary"),
        (f"{PLACE}:reshuffled", "change them one by one, by column expressions: it has Rep"),
        (f"{PLACE}:once_each", "by column expressions: it has Deduplicate"),
        (f"{PLACE}:through_python", "by column expressions: it has PythonUDF"),
        (f"{PLACE}:twice", "by column expressions: it has Generate"),
        (f"{PLACE}:sorted_by_key", "by column expressions: it has Sort"),
    ],
)
def test_a_transform_that_does_not_fit_is_refused(
    spark: SparkSession, name: str, reason: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        check_transform(spark, name)
    assert f"topics.transform: {name}: " in str(refused.value)
    assert reason in str(refused.value)
    assert refused.value.exit_code == EXIT_CONFIG
