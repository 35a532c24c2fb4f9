"""Tree: what a node keeps of the nodes below it, how it follows them, and how it shows them."""
