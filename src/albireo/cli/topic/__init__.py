"""`albireo topic`: topics and who subscribes to them."""
