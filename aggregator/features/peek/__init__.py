"""A look at one topic at one cluster: what it is like there, and its newest records."""
