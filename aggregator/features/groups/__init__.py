"""Moves consumer groups from a source to the hub, and finds where they continue there."""
