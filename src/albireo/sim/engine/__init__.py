"""The engine of every seeded world: time, cables, faults by seed, the judge of tenures, disks, and the play itself."""
