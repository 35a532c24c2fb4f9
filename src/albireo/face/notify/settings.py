"""Settings of notification: its keys in `[[node.face]]`."""

from typing import Final

import msgspec

from albireo.face.kinds import FaceKind, made_of


class NotifySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Notification, as its user wants it."""

    rules: str
    """File with the rules, TOML; rosters stand beside it. Read again when it changes."""

    def __post_init__(self) -> None:
        if not self.rules or "\0" in self.rules:
            raise ValueError('rules: name the file, such as rules = "notify.toml"')


KIND: Final = FaceKind(settings=NotifySettings, create=made_of("albireo.face.notify.actor:NotifyActor"))
