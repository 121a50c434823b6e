"""A room: the schema ids of the sources become ids of the hub's registry."""
