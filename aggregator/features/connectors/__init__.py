"""A room: sources as connectors, in the words and the JSON of Kafka Connect."""
