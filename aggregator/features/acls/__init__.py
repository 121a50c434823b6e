"""A room: who may read a source's topics may read the hub topics they lead to, and nobody else."""
