"""Quarantined records: lists what the hub refused, and retries it."""
