"""History by the minute, and events, kept in Delta beside the checkpoints."""
