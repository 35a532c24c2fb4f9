"""Words of the actors that keep files to the CORE of their node: what is wrong with these."""

import msgspec

from albireo.model.bounded import Count, Text


class MessagesTold(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="messages_told"):
    """Actor `topics` to CORE, each second: how many stretches of messages its files lack."""

    lacking: Count


class SealTold(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="seal_told"):
    """Actor `history` to CORE, after each seal: why it failed, and what to do; empty: it did not."""

    trouble: Text
