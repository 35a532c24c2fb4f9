"""Orders: what may be ordered of a node, each kind a folder: its machine, and its bodies in messages."""
