"""Which sources are behind, stuck or unreachable, or have another log. Pure."""
