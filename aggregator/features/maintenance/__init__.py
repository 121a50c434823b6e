"""Keeps all Delta tables of an aggregation small by one call, while no instance writes them."""
