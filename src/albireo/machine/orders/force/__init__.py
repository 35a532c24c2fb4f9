"""Forced items: the orders that force and release them."""
