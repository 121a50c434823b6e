"""Positions that people set: what a request comes to, and how it is carried out."""
