"""Desk: who is connected to a node, what each may append, and what each is told of it."""
