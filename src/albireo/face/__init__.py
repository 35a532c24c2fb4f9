"""Outward faces: followers and clients."""
