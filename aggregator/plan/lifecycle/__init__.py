"""Decides what becomes of each source partition, as commands for the engine. Pure.

`step` is the one decision of a running instance. It gets the state that it returned before and the
inputs since; it returns the next state, and commands that the engine carries out in their order.
"""
