"""Voters: the actor WITNESS, registers of PLCs, and the admission of both."""
