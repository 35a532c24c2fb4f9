"""Drills: a throw-away pair of real processes under a live load, and faults that are done to it.

    Rehearsal (rehearsal.py)   rounds: healthy, load, fault, service is back, healed, judged
      Pair (pair.py)           two members, three witnesses, their keys and directories
      Load (load.py)           two producers, one consumer, every acknowledgement with its time
      FAULTS (faults.py)       what is done and how it is undone
      judge (account.py)       what was lost, doubled, out of order: pure

Spec: issue lines of `albireo drill`; docs/drill.md; ADR-0116.
"""
