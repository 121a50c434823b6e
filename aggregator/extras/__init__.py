"""Extras beside copying: importers, brokers for demo and tests, notebooks."""
