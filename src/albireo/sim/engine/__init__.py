"""Parts of a seeded world."""
