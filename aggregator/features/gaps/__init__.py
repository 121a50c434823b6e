"""A room: gaps, what is lost of a source and what people decide about it."""
