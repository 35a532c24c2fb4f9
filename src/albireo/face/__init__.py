"""Outward faces: servers of other protocols, each a client of a node and nothing more."""
