"""Runs lanes as Spark streams into the hub."""
