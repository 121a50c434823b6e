"""Queries the clusters for a plan and during a run: discovery, probes, the hub's logs."""
