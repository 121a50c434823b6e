"""The state of an aggregation in Delta tables, and the lease of its one writer."""
