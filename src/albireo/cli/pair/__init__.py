"""Commands about a pair, its witnesses and its gates."""
