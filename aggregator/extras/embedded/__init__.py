"""A name and a broker count go in; a real, running Kafka cluster of child processes comes out."""
