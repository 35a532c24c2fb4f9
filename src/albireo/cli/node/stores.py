"""`albireo stores`: which of two data directories is newer, and why. `albireo quarantine`: what was cut and is kept."""

from pathlib import Path
from typing import Any

import click
import msgspec

from albireo.cli.display import time_text
from albireo.cli.output import ExitCode, Failure, Output, Shown, TextTable, printed
from albireo.cli.place import DIRECTORY, data_option, find_data
from albireo.log import LogError, StoreDamaged, WrongStore
from albireo.log.inspection import (
    Comparison,
    StoreSeen,
    compare,
    delete_quarantined,
    epochs_behind,
    inspect,
    quarantined,
)
from albireo.log.store.quarantine import Quarantined
from albireo.runtime.directory import holder

PRIVATE = "private"
"""Beside `log`: what a member does not replicate."""


class Named(msgspec.Struct, frozen=True, kw_only=True):
    """A store and where it was looked at."""

    directory: str
    seen: StoreSeen
    pid: int
    """Process that uses it; 0: none."""
    private: StoreSeen | None = None
    """Samples that are not replicated."""

    @property
    def name(self) -> str:
        return self.seen.header.node


@click.command("stores")
@click.argument("first", type=DIRECTORY)
@click.argument("second", type=DIRECTORY)
@printed
def command(first: Path, second: Path) -> Output:
    """Compare the data directories of the two members of a pair: which is newer, and why, in words.

    Only looks; neither member has to run, and copies of the directories will do. Exit code 0 if they belong together.
    """
    stores = _read(first), _read(second)
    found = compare(stores[0].seen, stores[1].seen)
    words = explained(stores, found)
    code = ExitCode.FAILED if found.kind in ("foreign", "same_store") else ExitCode.GOOD
    text: list[Shown] = [TextTable(ROW_NAMES, map(row_of, stores)), *words]
    return Output(_answer(stores, found, words), text, exit_code=code)


def _read(data: Path) -> Named:
    """Raises Failure."""
    log = data / "log"
    if not log.is_dir():
        raise Failure(
            f"{data} holds no log", "name the directory that `albireo node run --data` was given", ExitCode.USAGE
        )
    try:
        seen = inspect(log)
        private = inspect(data / PRIVATE) if (data / PRIVATE).is_dir() else None
    except LogError as error:
        raise Failure(
            str(error), "compare with a copy of it, if there is one; the other member has the records"
        ) from error
    except OSError as error:
        raise Failure(f"{log} can't be read: {error}", "run this as the owner of the directory") from error
    return Named(directory=str(data), seen=seen, pid=holder(data), private=private)


ROW_NAMES = ("store", "ends at", "committed", "stopped", "shutdown id", "epochs", "newest record", "damage")


def row_of(store: Named) -> tuple[str, ...]:
    seen, header = store.seen, store.seen.header
    epochs = ", ".join(f"{entry.epoch} from {entry.first_sequence}" for entry in header.history.entries[-4:])
    stopped = f"runs, process {store.pid}" if store.pid else ("cleanly" if header.is_clean else "NOT CLEANLY")
    return (
        store.name,
        str(seen.end),
        str(seen.committed_sequence),
        stopped,
        header.shutdown_id or "-",
        epochs or "-",
        time_text(seen.last_ns),
        "; ".join(damage_words(seen)) or "-",
    )


def damage_words(seen: StoreSeen) -> list[str]:
    """Damages of a store, each in a few words."""
    found = [f"{one.first_sequence} to {one.last_sequence} unreadable: {one.reason}" for one in seen.corrupt]
    if seen.cut_from:
        found.append(f"torn from {seen.cut_from} on, a start cuts it")
    found += [f"header copy {name} is stale" for name in seen.stale_copies]
    return found


def explained(stores: tuple[Named, Named], found: Comparison) -> list[str]:
    """Which store is newest, why, and what follows from it: one sentence a line."""
    first, second = stores
    match found.kind:
        case "foreign":
            return [
                f"{first.name} and {second.name} are not the two members of one pair: "
                f"log {first.seen.header.log_id[:8]} of {first.seen.header.cluster} and "
                f"log {second.seen.header.log_id[:8]} of {second.seen.header.cluster}.",
                "What to do: name the directories of root[primary] and root[backup] of the same topology.",
            ]
        case "same_store":
            return [
                "One is a copy of the other: both have the same store id, which no two members may have.",
                "What to do: keep the copy out of the pair. A member whose disk was replaced starts with an empty "
                "directory and is filled by the other member.",
            ]
        case "equal":
            return [*_equal(first, second), *_warnings(stores)]
        case _:
            return [*_unequal(stores, found), *_warnings(stores)]


def _equal(first: Named, second: Named) -> list[str]:
    one, two = first.seen, second.seen
    shared = one.header.shutdown_id
    if shared and shared == two.header.shutdown_id:
        why = f"both were stopped together, cleanly, with shutdown id {shared}"
    else:
        why = "their epoch histories are the same and both end there"
    return [f"Neither is newer: both end at {one.end}; {why}.", "Either may lead: start both."]


def _unequal(stores: tuple[Named, Named], found: Comparison) -> list[str]:
    if found.newest is None:
        return [
            f"Neither can be called newer: both end at {stores[0].seen.end} and differ behind {found.common}, "
            "as after an old backup of one store was brought back.",
            "What to do: decide which one is right, start it alone, and move the other directory away.",
        ]
    newer, older = stores[found.newest], stores[1 - found.newest]
    end, before = newer.seen.end, older.seen.end
    same = f"Both hold the same records up to {found.common}." if found.common else "They have no record in common."
    if end.epoch > before.epoch:
        why = f"Its epoch {end.epoch} is higher: it led, or followed who led, after {older.name} did."
    else:
        why = f"The epoch is the same, and it holds {end.sequence - before.sequence} records more."
    lines = [
        f"{newer.name} is newer: its last record is {end}, that of {older.name} is {before}.",
        f"{same} {why}",
        f"Only in {newer.name}: {_stretch(newer.seen, found.common)}.",
    ]
    if found.kind == "forked":
        lines += _fork(older, found.common)
    lines.append(
        f"What follows: start both; {newer.name} leads, if the voters have it in the set, and fills up the other."
    )
    return lines


def _fork(older: Named, common: int) -> list[str]:
    """Records of the older store that will be cut."""
    lost = older.seen.committed_sequence - common
    lines = [
        f"Only in {older.name}: {_stretch(older.seen, common)}. When it follows, this goes to its quarantine and stays "
        "there for people (`albireo quarantine`)."
    ]
    if lost > 0:
        lines.append(
            f"HISTORY AT RISK: {lost} of these were committed. That takes a forced promotion, or a disk that lied; "
            "look at both before anything is started."
        )
    return lines


def _stretch(seen: StoreSeen, after: int) -> str:
    parts = epochs_behind(seen.header.history, after, seen.end.sequence)
    return ", ".join(f"records {first} to {last} of epoch {epoch}" for epoch, first, last in parts) or "no record"


def _private_words(one: Named) -> list[str]:
    """Private values, which no other store has, whichever is newer."""
    seen = one.private
    if seen is None:
        return []
    lines = [
        f"{one.name} keeps samples that are not replicated: {seen.end.sequence} so far, in its private log "
        f"{seen.header.log_id[:8]}. No other store has them."
    ]
    if seen.corrupt or seen.cut_from:
        lines.append(
            f"The private log of {one.name} is damaged: {'; '.join(damage_words(seen))}. Nobody can repair it."
        )
    return lines


def _warnings(stores: tuple[Named, Named]) -> list[str]:
    lines = [f"{one.name} runs: what it holds changes while we look." for one in stores if one.pid]
    lines += [line for one in stores for line in _private_words(one)]
    for one in stores:
        accepted = one.seen.header.accepted_epoch
        if accepted > max(other.seen.end.epoch for other in stores):
            lines.append(
                f"{one.name} has accepted epoch {accepted}, of which neither store has a record: somebody may have "
                "begun to lead and recorded nothing."
            )
        if one.seen.corrupt:
            lines.append(f"{one.name} is damaged: {'; '.join(damage_words(one.seen))}. The other member repairs it.")
        elif not one.pid and not one.seen.header.is_clean and one.seen.end.sequence:
            lines.append(f"{one.name} was not stopped cleanly: its last records may never have been acknowledged.")
    return lines


def _answer(stores: tuple[Named, Named], found: Comparison, words: list[str]) -> dict[str, Any]:
    return {
        "kind": found.kind,
        "common": found.common,
        "newest": None if found.newest is None else stores[found.newest].name,
        "stores": [
            {
                "directory": one.directory,
                "node": one.name,
                "pid": one.pid,
                "private": msgspec.to_builtins(one.private),
                **msgspec.to_builtins(one.seen),
            }
            for one in stores
        ],
        "words": words,
    }


def _records(one: Quarantined) -> str:
    if one.last_sequence < one.first_sequence:
        return "none whole"
    return f"{one.first_sequence} to {one.last_sequence}"


@click.command("quarantine")
@click.option("--delete", "names", multiple=True, metavar="NAME", help="Delete what is listed under that name.")
@data_option
@printed
def quarantine(names: tuple[str, ...], data: Path | None) -> Output:
    """Show the records that were cut from a node's log and are kept: torn tails, records that another holder lacked.

    Nothing of it is ever read again by the node, which lets go of the oldest by itself when there is too much of it
    (docs/pair.md). With --delete something goes at once, for good.
    """
    directory = find_data(data)
    try:
        deleted = [delete_quarantined(directory / "log", name) for name in names]
        found = quarantined(directory / "log")
    except LookupError as error:
        raise Failure(str(error.args[0]), "albireo quarantine lists the names", ExitCode.USAGE) from error
    except (OSError, StoreDamaged, WrongStore) as error:
        raise Failure(f"{directory} can't be used: {error}", "run this as the owner of the directory") from error
    rows = ((one.name, _records(one), one.size_bytes, time_text(one.when_ns), one.why, len(one.files)) for one in found)
    text: list[Shown] = [f"deleted: {one.name}, {_records(one)}" for one in deleted]
    text.append(TextTable(("name", "records", "bytes", "when", "why", "files"), rows))
    place = directory / "log" / "quarantine"
    hint = f"{len(found)} cuts are kept in {place}" if found else "nothing that was cut is kept here"
    value = {"data": str(directory), "deleted": [one.name for one in deleted], "quarantined": found}
    return Output(value, text, (hint,))
