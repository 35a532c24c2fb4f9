"""Questions: what may be asked of a node, each declared once."""
