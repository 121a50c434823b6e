"""Java sources go in; out comes the jar by which Spark reads the sources and writes the hub."""
