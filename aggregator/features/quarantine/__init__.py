"""A config goes in; what the hub refused, and what became of it, comes out; and is tried again."""
