"""What the tests of a running aggregation share: runs in the background, an independent reader."""
