"""Everything that a store has beside its segments: header, snapshots, quarantine, retention."""
