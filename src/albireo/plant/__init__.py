"""Simulated plants for the demo, for drills and for tests."""
