"""A room: hub records land in Delta tables, a table for each hub topic."""
