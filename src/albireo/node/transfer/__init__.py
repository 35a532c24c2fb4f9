"""All that one member of a pair sends the other: frames, folds, ranges for repair, history files."""
