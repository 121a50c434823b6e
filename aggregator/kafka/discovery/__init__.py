"""Asks the clusters while an aggregation is planned and runs: looks, probes, the hub's logs."""
