"""Writes hub records to Delta tables, a table for each hub topic."""
