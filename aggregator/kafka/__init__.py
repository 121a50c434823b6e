"""Clients of Kafka clusters and schema registries, and the discovery of what they hold."""
