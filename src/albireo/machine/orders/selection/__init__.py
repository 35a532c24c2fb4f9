"""Selections: the orders that select an item for an order, and give it back."""
