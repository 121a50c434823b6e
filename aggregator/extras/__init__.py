"""What copying does not need: importers, brokers for demo and tests, notebooks."""
