"""A kind of adapter of the tests' own, whose device speaks by itself: all that a kind consists of, in one folder.

It is offered as another distribution would offer it: whoever puts this folder on the path has it.
"""
