"""Tables: rows by key that changed since a position or are gone, and all that follows from that, once for all of them.

A table is a declaration (`shape.py`) and, where it is folded, a fold (`fold.py`). Its state (`table.py`) is folded and
stands in snapshots; its changes go to viewers in the state feed, and the mirror of a node holds them above it
(`told.py`). Which tables there are stands in machine/fold/declared.py.
"""
