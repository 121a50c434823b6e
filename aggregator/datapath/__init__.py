"""Records from the sources to the hub: the connector in Java, Spark, and their jars."""
