"""Failover of a source to the hub, and failback to it."""
