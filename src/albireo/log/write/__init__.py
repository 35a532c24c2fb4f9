"""Writing: a frame from its append to the disk."""
