"""What a running instance shows of itself: a view of one moment, and the document made from it."""
