"""The status of a running instance: a view of one moment, and the document made from it."""
