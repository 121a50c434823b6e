"""Where partitions start, and what follows from a crash or a gap. Pure."""
