"""Copies read rights: who may read a source's topics may read their hub topics, and no one else."""
