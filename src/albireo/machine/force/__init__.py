"""Forced values: which items people have put a value to, and where their measured samples go meanwhile."""
