"""The session of these tests: a module with `EITHER_WAY = True` has one that interprets as well."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from aggregator.plan.tasks import HOW, INTERPRETED
from aggregator.stream.session import session_with


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run what takes a session twice, with generated code and without, where a module says so."""
    if getattr(metafunc.module, "EITHER_WAY", False) and "spark" in metafunc.fixturenames:
        metafunc.parametrize("spark", ["generated", "interpreted"], indirect=True, scope="module")


@pytest.fixture(scope="module")
def spark(spark: SparkSession, request: pytest.FixtureRequest) -> SparkSession:
    """The shared session, or with the parameter `interpreted` one beside it."""
    if getattr(request, "param", "generated") == "generated":
        return spark
    return session_with(spark, {HOW: INTERPRETED})
