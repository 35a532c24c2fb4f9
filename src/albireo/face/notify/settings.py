"""Settings of notification: its keys in `[[node.face]]`."""

import msgspec


class NotifySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Notification, as its user wants it."""

    rules: str
    """File with the rules, TOML; rosters stand beside it. Read again when it changes."""

    def __post_init__(self) -> None:
        if not self.rules or "\0" in self.rules:
            raise ValueError('rules: name the file, such as rules = "notify.toml"')
