"""A room: what was, by the minute and by the event, kept in Delta beside the checkpoints."""
