"""One writer at a time: the lock, the lease, and what a start does about another writer."""
