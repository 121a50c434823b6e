"""Imports from other tools: their files as our config, their stored offsets as positions."""
