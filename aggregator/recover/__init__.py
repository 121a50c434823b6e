"""A hub tail and positions go in; what the hub lacks is written, and new positions come out."""
