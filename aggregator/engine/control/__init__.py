"""A room: what people ask of a running instance, and the one way by which it reaches the engine."""
