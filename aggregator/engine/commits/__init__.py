"""From what the lanes report to the checkpoint: report points, bounds of the hub, and commits."""
