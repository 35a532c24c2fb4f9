"""Commands that show what a pair holds: seeded worlds and rehearsals."""
