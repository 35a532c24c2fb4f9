"""Bytes of the tree: the records and the letters of messages between nodes."""
