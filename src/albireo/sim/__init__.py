"""Simulated plants for the demo and rehearsals, and the seeded world of the tests."""
