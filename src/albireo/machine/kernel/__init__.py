"""Kernel: what a turn of CORE is made of. Every machine of a node may know it; it knows the folds only."""
