"""Bring many Kafka clusters together in one hub, with one Spark application."""

__version__ = "0.1.0"
