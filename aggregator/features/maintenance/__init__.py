"""A room: all Delta tables of an aggregation, kept small by one call, while nobody writes them."""
