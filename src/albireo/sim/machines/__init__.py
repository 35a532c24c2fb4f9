"""The world of the pair's machines, without the shells around them."""
