"""Which topics are copied, and the hub topics that they become. Pure."""
