"""Words between a page and its face: JSON texts on one WebSocket, tagged by `kind`.

    page --PageBegin--> face --Hello--> page          once; then, in any order:
    face --View--> page                               changes, 20 times a second at most; everything at first
    face --Alive--> page                              each half second: who leads, how old the newest value is
    page --PageLook--> face                           other items, please: everything of these comes next
    page --PageDraw--> face --Picture--> page         a picture, whoever may look
    page --PageAsked--> face --PageAnswered--> page   a method of the face (methods.py), by its name

Times are wall time in ms since 1970 (a JSON number holds them exactly). An item has a key, a number that is good for
one connection. The types of the front end are made from these.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from albireo.model.case import ItemCase
from albireo.model.item import DataItem
from albireo.model.item_states import ItemState
from albireo.model.refusal import Refusal
from albireo.model.tree.navigation import PlantGroup, PlantObject

PATTERNS_MAX = 200
"""Most patterns of one view."""
ItemPattern = Annotated[str, Meta(max_length=300, pattern=r"^([^*?]*[*?]){0,16}[^*?]*$")]
"""Full names of items, with up to 16 times * or ?: what many of them cost has no bound."""
Pattern = Annotated[ItemPattern, Meta(min_length=1)]
Shown = bool | int | float | str | None
"""A value as a page shows it: an integer beyond 2^53 as digits, a float that is no number as `nan`, `inf`, `-inf`."""


class PageSpoken(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    """Base of all words."""


# From the page.


class PageBegin(PageSpoken, frozen=True, tag="begin"):
    """The first word of a page."""

    token: Annotated[str, Meta(max_length=2_000)] = ""
    """Token that the login gave; empty: nobody is logged in."""
    patterns: Annotated[tuple[ItemPattern, ...], Meta(max_length=PATTERNS_MAX)] = ()


class PageLook(PageSpoken, frozen=True, tag="look"):
    """The page wants to see other items. Cases, forces, and what is not heard are always told."""

    patterns: Annotated[tuple[ItemPattern, ...], Meta(max_length=PATTERNS_MAX)]


class PageDraw(PageSpoken, frozen=True, tag="draw"):
    """The page wants to draw a picture."""

    name: Annotated[str, Meta(max_length=255)]


class PageAsked(PageSpoken, frozen=True, tag="asked"):
    """The page asks for something; `PageAnswered` has the same id."""

    id: Annotated[int, Meta(ge=0, le=2**31)]
    method: Annotated[str, Meta(max_length=60)]
    arguments: dict[str, Any] = {}


PageWord = PageBegin | PageLook | PageDraw | PageAsked


# To the page.


class PageMember(msgspec.Struct, frozen=True, kw_only=True):
    """A place of the node, and where its pages are."""

    place: str
    """`root`, or `root[primary]` and `root[backup]` of a pair."""
    url: str = ""
    """Where pages of this place are, without a path; empty: not known."""


class PagePerson(msgspec.Struct, frozen=True, kw_only=True):
    """Who is logged in."""

    name: str
    roles: dict[str, str]
    """Role by node of the tree that the person has it at: view, operate, engineer, admin."""
    session_id: int = 0
    """Login on record; 0: a program that has shown a token."""


class PictureTitle(msgspec.Struct, frozen=True, kw_only=True):
    """A picture that there is."""

    name: str
    title: str
    node: str = ""
    """Node whose site it shows; empty: not known."""
    trouble: str = ""
    """Why it is not drawn: its first mistake and the remedy."""


PictureSign = Literal["value", "level", "running", "profile"]


class PictureElement(msgspec.Struct, frozen=True):
    """An element of a drawing, and the items that it shows."""

    id: str
    how: PictureSign
    """A text, a bar in a rectangle, equipment, or likes side by side in a rectangle."""
    items: tuple[str, ...]
    """Full names: of equipment whether it runs, and whether it is tripped."""
    label: str
    section: str
    words: tuple[str, ...]
    """Words for false and true; none: those of the page."""


class Picture(PageSpoken, frozen=True, tag="picture"):
    """A picture: a drawing in which nothing acts, and what its elements show."""

    name: str
    svg: str = ""
    """Empty: it is not there, or has mistakes."""
    elements: tuple[PictureElement, ...] = ()


class Hello(PageSpoken, frozen=True, tag="hello"):
    """The first word to a page."""

    node: str
    member: str
    """Place that speaks."""
    members: tuple[PageMember, ...]
    build: str
    """Changes when the page has to be loaded anew."""
    person: PagePerson | None = None
    """None: nobody is logged in; the page may look if `may_look`."""
    may_look: bool = True
    zone: str = "UTC"
    """Time zone of the plant."""
    objects: tuple[PlantObject, ...] = ()
    groups: tuple[PlantGroup, ...] = ()
    pictures: tuple[PictureTitle, ...] = ()
    qualities: dict[str, str] = {}
    """Names of the qualities, by number."""


class ShownItem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An item of the view."""

    key: int
    node: str
    item: DataItem
    is_retired: bool = False


class ShownCase(ItemCase, frozen=True, kw_only=True):
    """A case, with what the page needs of its item."""

    raised_ms: int = 0
    """As `raised_ns` and `changed_ns`, in ms."""
    changed_ms: int = 0
    unshelve_ms: int | None = None
    description: str = ""
    """Description, unit and words of its item, and the limit that it is beyond; None: its rule has none."""
    unit: str = ""
    states: tuple[ItemState, ...] = ()
    limit: float | None = None


class View(PageSpoken, frozen=True, tag="view", omit_defaults=True):
    """Changes since the `View` before."""

    number: int
    at_ms: int
    """Time of the face."""
    is_whole: bool = False
    """True: what was shown before is void."""
    items: tuple[ShownItem, ...] = ()
    values: tuple[tuple[int, Shown, int, int], ...] = ()
    """Key, value, quality, time of the source."""
    cases: tuple[ShownCase, ...] = ()
    """Cases that changed; a closed one comes once."""
    stale: dict[str, int] | None = None
    """Nodes that are not heard, with the time since when, 0: never; None: as before."""
    forced: tuple[str, ...] | None = None
    """Full names of all forced items; None: as before."""


class ChangesTold(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Changes, as a program that watches is told them: a `View` with names in the place of keys."""

    at_ms: int
    is_whole: bool = False
    items: tuple[ShownItem, ...] = ()
    values: tuple[tuple[str, Shown, int, int], ...] = ()
    """Full name, value, quality, time of the source."""
    cases: tuple[ShownCase, ...] = ()
    stale: dict[str, int] | None = None
    forced: tuple[str, ...] | None = None


class Alive(PageSpoken, frozen=True, tag="alive"):
    """The face is there, and what it knows of its node."""

    at_ms: int
    newest_ms: int
    """Time of the newest value that it has; 0: none."""
    silent_since_ms: int = 0
    """Time since which its own member is not heard; 0: it is heard."""
    leads: str = ""
    """Place that leads; empty: nobody does."""
    leads_since_ms: int = 0
    """Time since which that one leads, or nobody does; 0: since this page is there."""
    items: int = 0
    """Number of items that the face knows; another one than before: there may be new ones to look at."""
    closed_ms: int = 0
    """Time at which the last case was closed; 0: none was since the face is there."""
    returned_ms: int = 0
    """Time at which a node was heard again last; 0: none was."""
    rate_hz: float = 10.0
    """Rate at which this page is told; lower: it takes too slowly."""


class PageAnswered(PageSpoken, frozen=True, tag="answered"):
    """The answer to a `PageAsked`: one of both."""

    id: int
    result: Any = None
    refusal: Refusal | None = None
    is_unknown: bool = False
    """True: whether it was done is not known (`OutcomeUnknown`)."""


FaceWord = Hello | View | Alive | Picture | PageAnswered
