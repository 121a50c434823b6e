"""Commands to a running instance, and the one queue by which they reach the engine."""
