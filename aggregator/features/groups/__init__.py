"""A room: consumer groups that move from a source to the hub, and where they go on there."""
