"""Decisions about gaps, which are what is lost of a source."""
