"""Messages between nodes: what is open on the way out, and on the way in."""
