"""Backfills: older ranges of a topic that come into the hub beside the live flow."""
