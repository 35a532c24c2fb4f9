"""Adapters to the outside; one contract, one conformance suite."""
