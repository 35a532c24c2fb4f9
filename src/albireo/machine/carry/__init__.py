"""Orders that travel as messages between the nodes of a tree."""
