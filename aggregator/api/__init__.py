"""The REST API of a running aggregation, in a thread of its own."""
