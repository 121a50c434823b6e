"""How partitions are read: lanes, tasks, slots, memory, limits, producers. Pure."""
