"""Runs real Kafka clusters as child processes."""
