"""Sessions: who is present at a node, from where, since when, in what role; how that begins and ends."""
