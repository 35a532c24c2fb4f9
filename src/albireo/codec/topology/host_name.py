"""Host names: which ones no resolver takes, so that a file with one is refused before anything is started by it.

Spec: RFC 1035, 2.3.4 (labels of 1..63 octets, 255 in all, of which two are not written).
"""

from typing import Final

LABEL_CHARS_MAX: Final = 63
NAME_CHARS_MAX: Final = 253


def host_mistake(host: str) -> str:
    """Reason why a host can have no such name; empty: it can, or it is a literal address."""
    if host.startswith("["):
        return ""
    labels = host.removesuffix(".").split(".")
    if not all(labels):
        return "the host name has an empty part between its dots"
    if max(len(one) for one in labels) > LABEL_CHARS_MAX:
        return f"a part of the host name has more than {LABEL_CHARS_MAX} characters"
    return f"the host name has more than {NAME_CHARS_MAX} characters" if len(host) > NAME_CHARS_MAX else ""
