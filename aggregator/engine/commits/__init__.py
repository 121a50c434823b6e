"""Turns reports of lanes into checkpoint commits, with bounds of the hub."""
