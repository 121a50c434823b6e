"""Positions and hub offsets in a Delta table, and the state that a start reads from it."""
