"""A store that takes a put twice whose condition allows one of them: the start refuses it."""

from __future__ import annotations

from pathlib import Path

import pytest

from aggregator.model.errors import CheckpointError
from aggregator.store.lease.conditional_puts import check_conditional_puts
from support.small_store import HONOURS, IGNORES, small_store


def test_a_store_that_ignores_the_condition_is_refused_and_nothing_is_left(tmp_path: Path) -> None:
    with small_store(tmp_path, IGNORES) as (path, options):
        with pytest.raises(CheckpointError, match="ignores conditional puts") as caught:
            check_conditional_puts(path, options)
        assert f"checkpoint.path {path}" in str(caught.value)
    assert not [it for it in tmp_path.joinpath("data").rglob("*") if it.is_file()]


def test_a_store_that_honours_the_condition_is_taken_and_nothing_is_left(tmp_path: Path) -> None:
    with small_store(tmp_path, HONOURS) as (path, options):
        check_conditional_puts(path, options)
    assert not [it for it in tmp_path.joinpath("data").rglob("*") if it.is_file()]


def test_a_local_path_is_not_touched(tmp_path: Path) -> None:
    check_conditional_puts(str(tmp_path / "state"), {})
    assert not list(tmp_path.iterdir())


def test_a_store_whose_commits_another_service_orders_is_not_asked() -> None:
    options = {"AWS_S3_LOCKING_PROVIDER": "dynamodb", "aws_endpoint": "http://127.0.0.1:1"}
    check_conditional_puts("s3://bucket/state", options)
