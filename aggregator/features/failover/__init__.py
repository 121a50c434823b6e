"""A room: a source fails over to the hub, and the way back from the hub to it."""
