"""What a run would do first, for `aggregator plan`; nothing is executed."""
