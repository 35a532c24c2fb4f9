"""Diagnostics of a node: its own figures, and its adapters as they are heard."""
