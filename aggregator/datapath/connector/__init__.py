"""The connector in Java by which Spark reads the sources and writes the hub."""
