"""The fault campaign: real clusters, a load, faults by a seed or by a script, and a judge."""
