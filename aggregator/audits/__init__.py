"""A room: audits, what `aggregator verify` found, kept beside the checkpoint and watched there."""
