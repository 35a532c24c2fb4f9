"""Writes of items: the way of a command from its request to its receipt."""
