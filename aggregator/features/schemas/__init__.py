"""Translates the schema ids of the sources to ids of the hub's registry."""
