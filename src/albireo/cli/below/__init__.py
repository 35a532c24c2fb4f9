"""Nodes below: how far the copy of each is, and what is missing of it."""
