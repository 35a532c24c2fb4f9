"""The world of whole nodes: real shells, logs, folds and voters."""
