"""Topics in the world of whole nodes."""
