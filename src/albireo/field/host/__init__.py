"""The machine that a node runs on, as items."""
