"""Rules and rosters: who is told of which alarms, when. Read with every mistake, each with its line and remedy.

    notify.toml = ca?, [smtp]?, [scripts]?, [[rule]]+         roster.csv = name,kind,address,order,from,to,weekly

The keys of the file are the fields of `NotifyFile`. Times of the clock are those of the plant's zone.
"""

import re
from collections.abc import Iterator
from datetime import datetime, timedelta, tzinfo
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Final, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from albireo.codec.topology.item_table import ItemRow, read_rows
from albireo.codec.topology.mistakes import Findings, Mistake, build, did_you_mean, shown
from albireo.codec.topology.toml_lines import key_lines
from albireo.codec.topology.topology import parsed, text_of
from albireo.face.notify.hours import HoursRefused, between_mask, minute_mask, week_mask
from albireo.model.case import ItemCase
from albireo.model.instant import SECOND
from albireo.model.item import name_parts
from albireo.runtime.text_reader import TextReader

RULES_MAX: Final = 50
ROWS_MAX: Final = 500
"""Rows of one roster."""

COLUMNS: Final = ("name", "kind", "address", "order", "from", "to", "weekly")
KINDS: Final = ("mail", "webhook", "script")
ADDRESS_CHARS_MAX: Final = 500
_MAIL: Final = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~\-]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9.\-]{0,252}[A-Za-z0-9])?")
_NAME: Final = re.compile(r"[^\x00-\x1f\x7f-\x9f\u2028\u2029<>&\"]{1,64}")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_FIRST, _LAST = datetime.min, datetime.max  # noqa: DTZ901  # Clocks on walls have no zone.
Priority = Literal["critical", "high", "low"]
PRIORITIES: Final[tuple[Priority, ...]] = ("critical", "high", "low")
Text = Annotated[str, Meta(max_length=500)]


def priority_of(severity: int) -> Priority:
    """Word for a severity, as the page has it."""
    return "critical" if severity >= 800 else "high" if severity >= 600 else "low"


class SmtpSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`[smtp]`: the mail server."""

    host: Text
    sender: Text
    """Address in From."""
    port: Annotated[int, Meta(ge=1, le=65_535)] = 587
    tls: Literal["starttls", "tls", "none"] = "starttls"
    user: Text = ""
    password_file: Text = ""
    """File with the password of `user` in its first line, beside the rules."""

    def __post_init__(self) -> None:
        if not _MAIL.fullmatch(self.sender):
            raise ValueError(f"sender {self.sender!r} is no address such as scada@plant.example")
        if bool(self.user) != bool(self.password_file) or (self.user and self.tls == "none"):
            raise ValueError("user and password_file go together, and with tls")


class RuleSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`[[rule]]`: alarms of which the people of a roster are told."""

    name: Annotated[str, Meta(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_\-]+\Z")]
    roster: Text
    """CSV file, beside the rules."""
    priorities: Annotated[tuple[Priority, ...], Meta(min_length=1)] = PRIORITIES
    sites: Annotated[tuple[Text, ...], Meta(min_length=1, max_length=100)] = ("*",)
    """Patterns of node ids."""
    items: Annotated[tuple[Text, ...], Meta(min_length=1, max_length=100)] = ("*",)
    """Patterns of local names of items."""
    hours: str = ""
    """Hours of the week in which people are told; an alarm that still asks as they begin is told then."""
    escalate_min: Annotated[int, Meta(ge=0, le=1_440)] = 10
    """Minutes without acknowledgement after which the next one is told; 0: only if this one could not be told."""
    most: Annotated[int, Meta(ge=1, le=100)] = 5
    """Alarms within `within_s` that have a message each; of more there is one message for all."""
    within_s: Annotated[int, Meta(ge=1, le=600)] = 30

    def __post_init__(self) -> None:
        week_mask(self.hours)


class NotifyFile(msgspec.Struct, frozen=True, kw_only=True):
    """The file of rules."""

    rule: Annotated[tuple[RuleSettings, ...], Meta(min_length=1, max_length=RULES_MAX)]
    ca: Text = ""
    """PEM file with the authorities of mail server and webhooks, beside the rules; empty: those of the machine."""
    smtp: SmtpSettings | None = None
    scripts: dict[str, Annotated[tuple[str, ...], Meta(min_length=1, max_length=50)]] = {}
    """Program and arguments, by the name that a roster has as address."""


class Duty(msgspec.Struct, frozen=True):
    """A row of a roster: one person, and when."""

    line: int
    name: str
    kind: str
    address: str
    order: int
    """The lowest is told first."""
    begins: datetime
    ends: datetime
    weekly: int
    """Minutes of the week."""

    def holds(self, local: datetime) -> bool:
        return self.begins <= local < self.ends and bool(self.weekly & minute_mask(local))

    def overlaps(self, other: "Duty") -> bool:
        begins, ends = max(self.begins, other.begins), min(self.ends, other.ends)
        return bool(begins < ends and self.weekly & other.weekly & between_mask(begins, ends))


class Rule(msgspec.Struct, frozen=True):
    """A rule with its roster."""

    settings: RuleSettings
    hours: int
    roster: tuple[Duty, ...]

    def takes(self, case: ItemCase) -> bool:
        """Whether it is about this case, at whatever time."""
        node, item = name_parts(case.item)
        wanted = self.settings
        return (
            priority_of(case.severity) in wanted.priorities
            and any(fnmatchcase(node, one) for one in wanted.sites)
            and any(fnmatchcase(item, one) for one in wanted.items)
        )

    def holds(self, local: datetime) -> bool:
        """Whether it is an hour of the rule."""
        return bool(self.hours & minute_mask(local))

    def on_duty(self, local: datetime) -> list[Duty]:
        """Who is to be told at a time, the first one first."""
        return sorted((one for one in self.roster if one.holds(local)), key=lambda one: one.order)


class NotifyRules(msgspec.Struct, frozen=True):
    """Everything that was read."""

    file: NotifyFile
    directory: Path
    rules: dict[str, Rule]
    zone: tzinfo
    """Zone of all hours."""

    def local(self, wall_ns: int) -> datetime:
        """The time that a clock on the wall shows."""
        seconds = max(0, min(wall_ns // SECOND, 32_503_680_000))
        return datetime.fromtimestamp(seconds, self.zone).replace(tzinfo=None)


def load_rules(file: Path, zone: tzinfo) -> tuple[NotifyRules | None, list[Mistake]]:
    """Rules and rosters, or None if there are mistakes; with the mistakes and warnings. Reads files."""
    read, found = TextReader(file.parent), Findings(file.name)
    text = text_of(file.name, read, found, (), "Name the file of rules")
    table = None if text is None else parsed(text, found)
    if table is None or text is None:
        return None, found.mistakes()
    found = Findings(file.name, key_lines(text))
    told = build(NotifyFile, table, (), found)
    mistakes = found.mistakes()
    if told is None or mistakes:
        return None, mistakes
    rules: dict[str, Rule] = {}
    for index, one in enumerate(told.rule):
        if one.name in rules:
            found.add(("rule", index, "name"), f"another rule is called {one.name}", "Give each a name of its own.")
        roster, wrong = _roster(read, told, found, index)
        mistakes += wrong
        rules[one.name] = Rule(one, week_mask(one.hours), roster)
    mistakes += found.mistakes()
    is_good = all(one.is_warning for one in mistakes)
    return NotifyRules(told, file.parent, rules, zone) if is_good else None, mistakes


def _roster(read: TextReader, told: NotifyFile, rules: Findings, index: int) -> tuple[tuple[Duty, ...], list[Mistake]]:
    name = told.rule[index].roster
    text = text_of(name, read, rules, ("rule", index, "roster"), "Name the CSV file of the roster")
    if text is None:
        return (), []
    found = Findings(name)
    rows = read_rows(text, found)
    if len(rows) > ROWS_MAX:
        found.add((), f"more than {ROWS_MAX} rows", "Give rules rosters of their own.", line=rows[ROWS_MAX].line)
    duties = [duty for row in rows[:ROWS_MAX] if (duty := _duty(row, told, found)) is not None]
    for line, said, remedy in _clashes(duties):
        found.add(("order",), said, remedy, line=line)
    return tuple(duties), found.mistakes()


def _duty(row: ItemRow, told: NotifyFile, found: Findings) -> Duty | None:
    """The row, or None with its mistakes in `found`."""
    cells, wrong = row.cells, False

    def refuse(column: str, text: str, remedy: str) -> None:
        nonlocal wrong
        wrong = True
        found.add((column,), text, remedy, line=row.line)

    for column in cells.keys() - set(COLUMNS):
        refuse(column, f"the column {shown(column)} is not known here", did_you_mean(column, COLUMNS))
    name, kind, address, order = (cells.get(one, "") for one in COLUMNS[:4])
    if not _NAME.fullmatch(name):
        refuse("name", f"{shown(name)} can't be a name", 'At most 64 characters, no line break, none of < > & ".')
    if why := _address_mistake(kind, address, told):
        refuse("address" if kind in KINDS else "kind", *why)
    if not re.fullmatch(r"[0-9]{1,3}", order):
        refuse("order", f"{shown(order)} is no order", "Write 1 for who is told first, 2 for the next one.")
    times, weekly = [_FIRST, _LAST], 0
    for at, column in enumerate(("from", "to")):
        try:
            times[at] = _time(cells[column], is_end=column == "to") if column in cells else times[at]
        except (ValueError, OverflowError):
            refuse(column, f"{shown(cells[column])} is no time", "Write such as 2026-12-01, or 2026-12-01 08:00.")
    try:
        weekly = week_mask(cells.get("weekly", ""))
    except HoursRefused as error:
        refuse("weekly", error.cause, f"{error.remedy.capitalize()}.")
    if not wrong and times[0] >= times[1]:
        refuse("to", "it ends before it begins: nobody is on duty", "Change from or to.")
    elif not wrong and not weekly & between_mask(*times):
        refuse("weekly", "none of these hours is between from and to: nobody is on duty", "Change one of them.")
    return None if wrong else Duty(row.line, name, kind, address, int(order), times[0], times[1], weekly)


def _time(text: str, *, is_end: bool) -> datetime:
    """A time of the clock; a day as an end is meant with all its hours."""
    found = datetime.strptime(text, "%Y-%m-%d" if len(text) == 10 else "%Y-%m-%d %H:%M")  # noqa: DTZ007  # Of the zone.
    return found + timedelta(days=1) if is_end and len(text) == 10 else found


def _address_mistake(kind: str, address: str, told: NotifyFile) -> tuple[str, str] | None:
    """The mistake in an address, and its remedy; None: it has none."""
    if kind not in KINDS:
        return f"{shown(kind)} is no kind of address", f"Write {', '.join(KINDS)}."
    if _CONTROL.search(address) or len(address) > ADDRESS_CHARS_MAX:
        return f"{shown(address)} has a line break or another control character, or is too long", "Take it away."
    if kind == "mail":
        if not _MAIL.fullmatch(address) or "=?" in address:  # That would be decoded (RFC 2047).
            return f"{shown(address)} is no address of mail", "Write one such as anna@plant.example, without a name."
        return None if told.smtp else ("nobody knows the mail server", "Add [smtp] with host and sender to the rules.")
    if kind == "script":
        return (
            None
            if address in told.scripts
            else (
                f"{shown(address)} is no script of the rules",
                f"Add it to [scripts]. {did_you_mean(address, told.scripts)}",
            )
        )
    try:
        parts = urlsplit(address)
        is_good = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0 and not parts.username
    except ValueError:
        is_good = False
    if not is_good or not address.isascii() or " " in address:
        return f"{shown(address)} is no address of a webhook", "Write https://HOST/PATH, without user and blanks."
    return None


def _clashes(duties: list[Duty]) -> Iterator[tuple[int, str, str]]:
    """Rows of which it is not clear who comes first, or after whom the same one comes again."""
    for at, one in enumerate(duties):
        for other in duties[:at]:
            is_same = (one.kind, one.address) == (other.kind, other.address)
            if not (one.order == other.order or is_same) or not one.overlaps(other):
                continue
            if one.order == other.order:
                yield one.line, f"overlaps with line {other.line}, of the same order", "Give it other hours or order."
            else:
                yield (
                    one.line,
                    f"{one.name} would be escalated to itself, from line {other.line}",
                    "Name somebody else.",
                )
