"""Sources as connectors, with the keys and the JSON of Kafka Connect."""
