"""The benchmark: the same records through this project and through MirrorMaker 2."""
