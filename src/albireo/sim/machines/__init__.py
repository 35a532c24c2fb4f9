"""The world of the pair's machines, without the real shells around them."""
