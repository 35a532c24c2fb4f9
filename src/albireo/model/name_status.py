"""Meaning of the name of a host."""

import msgspec


class NameStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Meaning of a host's name on the machine that tells it."""

    addresses: tuple[str, ...] = ()
    """The last that were found."""
    trouble: str = ""
    """Reason why the last lookup found none."""

    def text(self, host: str) -> str:
        found = ", ".join(self.addresses) or "nothing"
        return f"{host} stands for {found} here" + (f" ({self.trouble})" if self.trouble else "")
