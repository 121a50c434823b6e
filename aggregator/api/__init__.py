"""The latest status goes in; REST comes out, from a thread of the running aggregation."""
