"""`albireo demo`: a simulated tunnel, a pair of nodes on it, the report at the end."""
