"""Drills of the tree: a site below a root, each a node of its own processes, lone or a pair."""
