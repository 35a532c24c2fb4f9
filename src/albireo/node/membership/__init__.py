"""Membership: what a node has whether it stands alone or in a pair: its log and folds, its door, its keys, its private log."""
