"""Heartbeats at the hub, one a second for each source that is read."""
