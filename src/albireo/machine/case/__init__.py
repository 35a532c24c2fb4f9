"""Acting on cases: of this node, and by messages of the other nodes of the tree."""
