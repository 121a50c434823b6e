"""Positions set by hand: resolves a request, and applies it."""
