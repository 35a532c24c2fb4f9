"""Former words: what a neighbour of the version before says, turned into the words of today.

The only place that knows older forms of messages and records; everything behind it has one form. Empty: no version came
before the first. Spec: ADR-0228.
"""
