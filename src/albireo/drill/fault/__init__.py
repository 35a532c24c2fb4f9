"""The faults that a drill does to a pair, and how each is undone."""
