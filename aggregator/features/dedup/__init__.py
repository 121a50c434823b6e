"""Which events the hub holds, kept over restarts, so that each comes once."""
