"""Membership: what a node has alone or in a pair: its log and folds, its door, its keys, its private log."""
