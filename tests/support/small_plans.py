"""Spark settings for few records: a plan is made once, and its shuffles have one task."""

from __future__ import annotations

SMALL_PLANS = {"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "1"}
"""A plan that is made again after each stage is a fifth more work."""
AS_OPTIONS = [f"--set=spark.conf.{name}={value}" for name, value in SMALL_PLANS.items()]
"""For a command that a test is not about, such as an audit behind a copy."""
