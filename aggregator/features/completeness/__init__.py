"""A room: up to which moment the hub has all that its sources acknowledged, and who holds it up."""
