"""A config and a scope go in; what of the sources is in the hub, and how, comes out as a report."""
