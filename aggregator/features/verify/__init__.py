"""Compares the sources with the hub record by record, with a report."""
