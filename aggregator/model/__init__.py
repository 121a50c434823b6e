"""The project's terms as frozen values, its errors and events. Imports nothing else."""
