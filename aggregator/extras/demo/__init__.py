"""The demo: generates records, has them copied, and counts them at the hub."""
