"""Where partitions start, also after a crash or a gap. Pure."""
