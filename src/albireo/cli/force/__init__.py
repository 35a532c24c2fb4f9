"""`albireo force` and `albireo forces`: values that people put to items."""
