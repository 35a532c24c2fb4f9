"""Histories of the nodes below: one store for each origin, filled from the envelopes in the log of this node."""
