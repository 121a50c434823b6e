"""A room: what a run would do first, which `aggregator plan` shows; nothing is carried out."""
