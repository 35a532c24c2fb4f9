"""Voters: the acceptor, the registers of a PLC as one, and the signs that a process is gone (design/pair.md)."""

from albireo.machine.vote.voter import Voter, VoterStore

__all__ = ["Voter", "VoterStore"]
