"""Up to which moment the hub has all that its sources acknowledged, and what holds it up."""
