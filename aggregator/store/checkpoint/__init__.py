"""Positions and hub offsets of a run go in; a Delta table comes out, and the state of a start."""
