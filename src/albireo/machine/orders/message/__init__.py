"""A program's message to receivers at another node."""
