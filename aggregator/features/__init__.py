"""Additions to plain copying, one folder each; most do not import each other."""
