"""The world of a tree: whole nodes above nodes, each alone, with cables between them."""
