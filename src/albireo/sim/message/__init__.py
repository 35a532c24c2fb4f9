"""The simulated world of messages: three nodes of one tree that want things of each other, from a seed."""
