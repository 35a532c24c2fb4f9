"""Tree: its nodes by their ids, and what they send each other."""
