"""Seeded worlds: the real machines and the real nodes in one process, and all that can go wrong around them."""
