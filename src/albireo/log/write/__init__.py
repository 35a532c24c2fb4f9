"""The way of a frame to the disk."""
