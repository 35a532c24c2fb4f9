"""Decisions of the historian, and the kernels of its answers."""
