"""Up to which moment the hub has all records of its sources. Pure."""
