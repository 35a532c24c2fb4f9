"""Hexabus in a seeded world: two members, their journal, a bad network, and devices that run programs."""
