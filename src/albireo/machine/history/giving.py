"""Giving: answers of a history to one that lacks files, of the other member or of the node above. No state: each looks
at the manifest.

Spec: ADR-0124, ADR-0218.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from albireo.codec.history import FileEntry, FileKind, Hole, Manifest, group_of
from albireo.codec.history_copy import GroupAsked, GroupSent

COPIED: Final = (FileKind.SAMPLES, FileKind.GAPS, FileKind.EVENTS)
"""Kinds of files that members copy: partials are made anew from the samples, items come with the folds."""


def group_sent(manifest: Manifest, ask: GroupAsked, *, is_final: bool = False) -> GroupSent:
    """Answer with the files of the wanted group.

    Args:
        is_final: nobody else is asked for what this history lacks.
    """
    if manifest.log_id != ask.log_id:
        return GroupSent(number=ask.number, reason="other_log")
    if manifest.position.sequence < ask.last_sequence:
        return GroupSent(number=ask.number, reason="behind")
    groups: dict[str, list[FileEntry]] = {}
    for entry in _within(manifest, ask):
        groups.setdefault(group_of(entry), []).append(entry)
    todo = [name for name in groups if not ask.before or name < ask.before]
    if ask.is_exact:
        todo = [ask.before] if ask.before in groups else []
    name = max(todo, default="")
    return GroupSent(
        number=ask.number,
        group=name,
        entries=tuple(sorted(groups.get(name, ()), key=lambda entry: (entry.first_sequence, entry.path))),
        holes=tuple(_told(hole, is_final) for hole in _touching(manifest.holes, ask)),
        files=sum(map(len, groups.values())),
        left=sum(len(groups[one]) for one in todo),
    )


def _within(manifest: Manifest, ask: GroupAsked) -> Iterable[FileEntry]:
    """Files with records of the range, without the gap files of our own holes, which are losses and no records."""
    own_gaps = {hole.gap for hole in manifest.holes}
    for entry in manifest.files:
        if ask.node and entry.kind is FileKind.ITEMS:
            yield entry
            continue
        is_wanted = entry.kind in COPIED and entry.log_id == ask.log_id and entry.path not in own_gaps
        is_wanted &= ask.node in ("", entry.node)
        if is_wanted and entry.first_sequence <= ask.last_sequence and entry.last_sequence >= ask.first_sequence:
            yield entry


def _told(hole: Hole, is_final: bool) -> Hole:
    return msgspec.structs.replace(hole, is_settled=True) if is_final else hole


def _touching(holes: Iterable[Hole], ask: GroupAsked) -> Iterable[Hole]:
    return (
        hole for hole in holes if hole.first_sequence <= ask.last_sequence and hole.last_sequence >= ask.first_sequence
    )
