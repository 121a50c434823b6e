"""Shows one topic at one cluster: its settings, its logs, its newest records."""
