"""The house rules that a reader can rely on because a machine checks them.

Ratchets only tighten: whoever shortens one of the listed functions or modules lowers its number here.
"""

import ast
import re
import subprocess
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest

from tests import rooms

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "albireo"

FLOORS = (
    ("model",),
    ("codec",),
    ("machine", "log"),
    ("runtime",),
    ("client",),
    ("field",),
    ("node", "pipeline", "face"),
    ("sim",),
    ("plant",),
    ("drill",),
    ("cli",),
)
"""Rooms from the ground up. A room may import the floors below it and itself, never a room on its own floor."""

FLOORS_INSIDE = {
    "machine": (
        ("producer", "vote", "output", "history", "chp", "hexabus", "table"),
        ("fold",),
        ("kernel", "access"),
        ("feed", "message"),
        ("pair", "topics", "tree"),
        ("desk",),
        ("diagnostics", "orders"),
        ("carry",),
        ("answers",),
        ("root",),
    ),
    "node": (
        ("membership", "history", "topics", "kept_zone", "logger", "lone"),
        ("transfer", "vote", "gate", "apply"),
        ("member", "boot"),
        ("core",),
    ),
    "log": (
        ("config", "descriptors", "errors"),
        ("files",),
        ("store",),
        ("segment",),
        ("write",),
        ("opening",),
        ("inspection", "retention"),
        ("log",),
    ),
    "cli": (
        ("acting", "display", "end_with_parent", "safe_text", "timespan"),
        ("output",),
        ("findings", "place", "process", "saved_sites", "topology_file"),
        ("target",),
        ("chp", "completion", "pipeline"),
        ("below", "hexabus", "pair", "message", "proof"),
        ("node", "view"),
        ("force", "site", "topic"),
        ("demo",),
    ),
}
"""The same inside a room, where one folder or module of it may import another that stands on a lower floor."""

PURE_ROOMS = ("model", "codec", "machine")
IMPURE = frozenset(
    "asyncio concurrent ctypes logging multiprocessing os pathlib psutil queue random secrets select selectors shutil "
    "signal socket ssl subprocess tempfile threading time zmq".split()
)
"""No clock, no files, no sockets, no threads, no randomness that was not handed in."""
PURE_NAMES = frozenset({"pathlib.PurePosixPath", "random.Random"})
"""Of these modules only what neither reads nor draws: a path as text, a generator that was seeded by the caller."""

BANNED_NAMES = frozenset("utils util helpers helper common base misc manager managers shared stuff".split())

DEPENDENCIES_WITH_ADR = ROOT / "docs" / "adr"

SOCKET_MODULE = "runtime/link/sockets.py"
SYNC_PLACES = ("log/", "node/history/")

FUNCTION_LINES = 40
MODULE_LINES = 400
"""What the style asks for."""
LARGEST_FUNCTIONS: dict[str, int] = {
    "codec/frame.py:decode_header": 60,
    "machine/history/aggregate.py:merge": 47,
    "field/modbus/items.py:parse_row": 42,
    "runtime/actor/actor.py:__init__": 41,
    "machine/history/aggregate.py:partials_of": 39,
    "log/segment/scan.py:scan": 39,
    "node/boot.py:specs_of": 38,
}
"""The ten largest functions and the lines each may have; all others stay within FUNCTION_LINES or the least of them."""
LARGEST_MODULES: dict[str, int] = {
    "machine/fold/alarms/conditions.py": 510,
    "runtime/actor/supervision.py": 494,
    "log/log.py": 477,
    "machine/root/root.py": 468,
    "node/history/query.py": 465,
    "machine/fold/items/dim.py": 461,
    "machine/fold/alarms/cases.py": 460,
    "node/member/member.py": 454,
}
"""The same for modules."""

FORBIDDEN_TEXT = (
    re.compile(r"(?<![\w.~<>-])/(?:home|root|Users|work)/[a-z]"),
    re.compile(r"(?:pypi|pythonhosted|npmjs)\.(?:org|com)", re.IGNORECASE),
    re.compile(r"--(?:extra-)?index-url|--find-links"),
)
TEXT_EXEMPT = ("tests/test_tidy.py", "LICENSE", ".ci/lock")
"""`.ci/lock` names the options by which an index is left out."""


def modules() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


@cache
def _tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def name_of(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


@cache
def imports_of(path: Path) -> Sequence[tuple[str, int]]:
    """Every imported module with its line, inside functions and `TYPE_CHECKING` as well."""
    found: list[tuple[str, int]] = []
    for node in ast.walk(_tree_of(path)):
        if isinstance(node, ast.Import):
            found += [(alias.name, node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name_of(path)}:{node.lineno}: imports are absolute"
            module = node.module or ""
            found += [(module, node.lineno), *((f"{module}.{alias.name}", node.lineno) for alias in node.names)]
    return found


def floor_of(room: str) -> int:
    return next(index for index, rooms in enumerate(FLOORS) if room in rooms)


def tracked() -> list[str]:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout: which files are tracked cannot be known")
    return [name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]


def test_every_folder_is_a_room_with_a_floor() -> None:
    known = {room for rooms in FLOORS for room in rooms}
    there = {path.name for path in SOURCE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert there == known


def test_imports_point_only_downward_and_never_to_a_room_on_the_same_floor() -> None:
    wrong = []
    for path in modules():
        room = path.relative_to(SOURCE).parts[0]
        if room.endswith(".py"):
            continue
        for module, line in imports_of(path):
            parts = module.split(".")
            if parts[0] != "albireo" or len(parts) < 2 or not (SOURCE / parts[1]).is_dir() or parts[1] == room:
                continue
            if floor_of(parts[1]) >= floor_of(room):
                wrong.append(f"{name_of(path)}:{line}: {room} must not import {parts[1]}")
    assert sorted(set(wrong)) == []


@pytest.mark.parametrize("room", FLOORS_INSIDE)
def test_inside_a_room_imports_point_only_downward(room: str) -> None:
    height = {name: floor for floor, names in enumerate(FLOORS_INSIDE[room]) for name in names}
    children = rooms.house()[(room,)]
    assert {one for floor in rooms.floors((room,)) for one in floor} == height.keys()
    wrong = [
        line
        for name, wanted in children.items()
        for other, lines in wanted.items()
        if other != "__init__" and height[other] >= height[name]
        for line in lines
    ]
    assert wrong == []


def test_no_folders_import_each_other_in_a_circle() -> None:
    """At no depth: `python tests/rooms.py` prints what ties one."""
    assert rooms.circles() == {}


def impure_uses(path: Path) -> Iterator[str]:
    """Imports of `path` that a pure room must not have."""
    tree = _tree_of(path)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in IMPURE:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            yield from (f"{name_of(path)}:{node.lineno}: {name}" for name in sorted(names - PURE_NAMES))
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] in IMPURE and not _only_pure_names(tree, alias.name):
                    yield f"{name_of(path)}:{node.lineno}: {alias.name}"


def _only_pure_names(tree: ast.AST, module: str) -> bool:
    uses = {
        f"{module}.{node.attr}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == module
    }
    return bool(uses) and uses <= PURE_NAMES


def test_pure_rooms_know_no_clock_no_files_no_sockets_and_no_threads() -> None:
    pure = [path for path in modules() if path.relative_to(SOURCE).parts[0] in PURE_ROOMS]
    assert [use for path in pure for use in impure_uses(path)] == []


def test_pure_rooms_never_read_the_clock_through_datetime() -> None:
    pattern = re.compile(r"\b(?:datetime|date)\.(?:now|today|utcnow)\(")
    pure = [path for path in modules() if path.relative_to(SOURCE).parts[0] in PURE_ROOMS]
    assert [name_of(path) for path in pure if pattern.search(path.read_text())] == []


def test_every_folder_is_a_package_that_says_what_it_holds() -> None:
    folders = {path.parent for path in modules()}
    assert [name_of(one) for one in folders if not (one / "__init__.py").is_file()] == []
    silent = [one for one in folders if not ast.get_docstring(ast.parse((one / "__init__.py").read_text()))]
    assert [name_of(one) for one in silent if one != SOURCE] == []


def imported_modules(path: Path) -> set[str]:
    """Modules of this project that `path` imports at its top, by file name; a package stands for its `__init__`."""
    found = set()
    for node in _tree_of(path).body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            names = [one for inner in node.body for one in _names_of(inner)]
        else:
            names = _names_of(node)
        found |= {place for name in names if (place := _place_of(name)) is not None}
    return found


def _names_of(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module:
        inner = [f"{node.module}.{alias.name}" for alias in node.names]
        return [one if _place_of(one) is not None else node.module for one in inner]
    return []


def _place_of(module: str) -> str | None:
    parts = module.split(".")
    if parts[0] != "albireo" or len(parts) < 2:
        return None
    place = SOURCE.joinpath(*parts[1:])
    if place.with_suffix(".py").is_file():
        return name_of(place.with_suffix(".py"))
    return name_of(place / "__init__.py") if (place / "__init__.py").is_file() else None


def test_no_modules_import_each_other_in_a_circle() -> None:
    """What is imported for its types alone counts: who needs the other to be understood is one module with it."""
    graph = {name_of(path): imported_modules(path) for path in modules()}
    while loose := _outside(graph):
        for name in loose:
            del graph[name]
    assert {name: sorted(wanted & graph.keys()) for name, wanted in graph.items()} == {}


def _outside(graph: dict[str, set[str]]) -> list[str]:
    """Modules that are in no circle, as they import none that is left, or no one that is left imports them."""
    imported = {name for wanted in graph.values() for name in wanted}
    return [name for name, wanted in graph.items() if name not in imported or not wanted & graph.keys()]


def test_each_class_has_a_name_of_its_own() -> None:
    """One word per concept: two classes of one name are told apart by their imports alone."""
    defined: dict[str, list[str]] = {}
    for path in modules():
        for node in ast.walk(_tree_of(path)):
            if isinstance(node, ast.ClassDef):
                defined.setdefault(node.name, []).append(name_of(path))
    assert {name: places for name, places in defined.items() if len(places) > 1} == {}


def test_docstrings_name_their_subject_first() -> None:
    """The docstrings of attributes and constants count too."""
    fragments = []
    for path in modules():
        for node in ast.walk(_tree_of(path)):
            if (
                isinstance(node, ast.Expr)
                and isinstance(node.value, ast.Constant)
                and isinstance(node.value.value, str)
            ):
                if node.value.value.split(maxsplit=1)[0] in ("Of", "What"):
                    fragments.append(f"{name_of(path)}:{node.lineno}")
    assert fragments == []


def test_no_test_needs_another_test_file() -> None:
    """What tests share stands in tests/parts."""
    takers = []
    for path in (ROOT / "tests").rglob("*.py"):
        for module, line in imports_of(path):
            if module.startswith("tests.") and module.rsplit(".", 1)[-1].startswith("test_"):
                takers.append(f"{path.relative_to(ROOT)}:{line}: {module}")
    assert takers == []


def test_no_module_is_a_drawer() -> None:
    assert [name_of(path) for path in modules() if path.stem in BANNED_NAMES or path.parent.name in BANNED_NAMES] == []


def test_zeromq_sockets_are_created_in_one_module() -> None:
    """Matches `context.socket(zmq.X)`, `zmq.Socket(...)` and `zmq.Context(...)` as well."""
    pattern = re.compile(r"\.socket\(\s*zmq\.|zmq\.(?:asyncio\.)?(?:Socket|Context)\(")
    makers = [name_of(path) for path in modules() if pattern.search(path.read_text())]
    assert set(makers) <= {SOCKET_MODULE}
    importers = [name_of(path) for path in modules() if any(m == "zmq.asyncio" for m, _ in imports_of(path))]
    assert importers == [], "zmq.asyncio costs six times the CPU on the data path"


def test_only_log_and_history_sync_to_disk() -> None:
    pattern = re.compile(r"\bf(?:data)?sync\(")
    callers = [name_of(path) for path in modules() if pattern.search(path.read_text())]
    assert [name for name in callers if not name.startswith((*SYNC_PLACES, "cli/site/checkup.py"))] == []


def functions() -> Iterator[tuple[str, int]]:
    """`module:function` with its number of lines, docstring not counted."""
    for path in modules():
        for node in ast.walk(_tree_of(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                first = node.body[0]
                is_documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
                documented = (first.end_lineno or 0) - first.lineno + 1 if is_documented else 0
                yield f"{name_of(path)}:{node.name}", (node.end_lineno or 0) - node.lineno + 1 - documented


def outgrown(sizes: dict[str, int], allowed: dict[str, int], usual: int) -> dict[str, int]:
    """What is larger than it may be: a listed one than its number, any other than the least number listed."""
    most = max(usual, min(allowed.values()))
    return {name: lines for name, lines in sizes.items() if lines > allowed.get(name, most)}


def test_the_largest_functions_only_shrink() -> None:
    sizes: dict[str, int] = {}
    for name, lines in functions():
        sizes[name] = max(lines, sizes.get(name, 0))
    assert outgrown(sizes, LARGEST_FUNCTIONS, FUNCTION_LINES) == {}, "split it, or say in a review why not"
    assert [name for name in LARGEST_FUNCTIONS if name not in sizes] == [], "gone: take it off the list"


def test_the_largest_modules_only_shrink() -> None:
    sizes = {name_of(path): len(path.read_text().splitlines()) for path in modules()}
    assert outgrown(sizes, LARGEST_MODULES, MODULE_LINES) == {}, "split it by the state it owns"
    assert [name for name in LARGEST_MODULES if name not in sizes] == [], "gone: take it off the list"


def test_no_tracked_file_names_a_machine_or_an_index() -> None:
    wrong = []
    for name in tracked():
        if name in TEXT_EXEMPT:
            continue
        try:
            text = (ROOT / name).read_text()
        except UnicodeDecodeError:
            continue
        wrong += [f"{name}: {found.group()}" for pattern in FORBIDDEN_TEXT if (found := pattern.search(text))]
    assert wrong == []


def test_every_public_list_is_sorted_true_and_pinned() -> None:
    """`__all__` of each package: names that are there, in order, and exactly those of `PUBLIC`."""
    found: dict[str, list[str]] = {}
    for path in modules():
        if path.name != "__init__.py":
            continue
        for node in _tree_of(path).body:
            if isinstance(node, ast.Assign) and any(
                isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets
            ):
                found[name_of(path.parent)] = ast.literal_eval(node.value)
    assert {room: names for room, names in found.items() if names != sorted(names)} == {}
    assert found == PUBLIC


PUBLIC: dict[str, list[str]] = {
    "cli": ["COMMANDS", "cli", "main"],
    "client": [
        "AccessRefused",
        "Acknowledged",
        "AlreadySelected",
        "AnswerNotUnderstood",
        "ArgumentRefused",
        "AsyncClient",
        "BatchRefused",
        "CaseMeant",
        "CaseOutcome",
        "Changes",
        "Client",
        "ClientBusy",
        "ClientClosed",
        "ClientError",
        "CommandIdReused",
        "Delivered",
        "FileNotReceived",
        "FileNotSent",
        "HistoryCutShort",
        "InboxMessage",
        "ItemCase",
        "ItemReading",
        "ItemSelection",
        "KeyNotTrusted",
        "NameTaken",
        "NewMessage",
        "NodeRefused",
        "NodeUnreachable",
        "NotDelivered",
        "NotInTime",
        "NotSelected",
        "OutcomeUnknown",
        "ProducerRefused",
        "QuestionUnknown",
        "QueueFull",
        "Rewound",
        "SampleProducer",
        "SessionOver",
        "SessionRow",
        "Sharing",
        "StateChange",
        "TargetRefused",
        "TicketGiven",
        "TopicMessage",
        "TopicPolicy",
        "WhenFull",
        "aconnect",
        "connect",
        "members_of",
    ],
    "machine/fold": [
        "AlarmConfig",
        "Cases",
        "Conditions",
        "Dim",
        "FloodMetrics",
        "Fresh",
    ],
    "machine/pair": ["PairConfig"],
    "machine/vote": ["Voter", "VoterStore"],
    "log": [
        "Backlogged",
        "Corrupted",
        "EntryTooLarge",
        "FileSystem",
        "FramesRefused",
        "Locked",
        "LogConfig",
        "LogError",
        "LogStopped",
        "OpenFailed",
        "OpenRefused",
        "OsFileSystem",
        "Pruned",
        "ReadFailed",
        "RepairFailed",
        "SnapshotFailed",
        "StoreDamaged",
        "StoreIdentity",
        "StoreLocked",
        "WrongStore",
        "pair_log_id",
        "read_file",
        "write_aside",
    ],
    "node/history": ["HistoryArguments", "create"],
    "machine/hexabus": ["Machine", "after", "at", "clock", "group", "when"],
    "runtime": [
        "ActorContext",
        "ActorFailed",
        "ActorHung",
        "ActorSpec",
        "AddressTaken",
        "Behaviour",
        "ConfigurationRefused",
        "DataLocked",
        "DirectoryUnsafe",
        "EndpointRefused",
        "Journal",
        "Keys",
        "KeysRefused",
        "Letter",
        "Link",
        "LinkLimits",
        "Mailbox",
        "MailboxFull",
        "NodeSilent",
        "Overflow",
        "PeerUnreachable",
        "Reach",
        "RuntimeFault",
        "StartFailed",
        "StoreRefused",
        "Supervised",
        "SyncLink",
        "TurnLimits",
        "run_actor",
        "running",
    ],
    "plant/house": ["DEVICES", "HouseProcesses", "item_table", "machines"],
    "plant/tunnel": ["Scenario", "Tunnel", "TunnelError", "start_tunnel", "start_whole_tunnel", "write_site"],
}
"""What each room promises to others; a name goes only with a note in the ADR that allowed it."""


def runtime_dependencies() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["sql"]]
    wanted += project["optional-dependencies"]["spark"]
    return sorted({re.split(r"[\[<>=~! ]", one)[0] for one in wanted})


@pytest.mark.parametrize("dependency", runtime_dependencies())
def test_every_runtime_dependency_has_a_decision_that_names_its_licence(dependency: str) -> None:
    pages = [path.read_text() for path in DEPENDENCIES_WITH_ADR.glob("*.md")]
    told = [
        page for page in pages if dependency.lower() in page.lower() and re.search("licen[cs]e", page, re.IGNORECASE)
    ]
    assert told, f"write docs/adr for {dependency}: why it, what else was looked at, its licence"


def test_decisions_are_numbered_once_and_fill_one_page() -> None:
    pages = sorted(DEPENDENCIES_WITH_ADR.glob("[0-9]*.md"))
    numbers = [path.name[:4] for path in pages]
    assert len(set(numbers)) == len(numbers), "two decisions have one number"
    for path in pages:
        assert re.match(r"\d{4}-[a-z0-9-]+\.md$", path.name), path.name
        words = len(path.read_text().split())
        assert words <= 900, f"{path.name} has {words} words: one page, please"
        for heading in ("Problem", "Decision", "Consequences", "What would prove us wrong"):
            assert heading.lower() in path.read_text().lower(), f"{path.name} has no part {heading!r}"


def test_the_index_of_decisions_names_each_once_under_its_title() -> None:
    index = (DEPENDENCIES_WITH_ADR / "README.md").read_text()
    titles = {path.name: path.read_text().splitlines()[0] for path in DEPENDENCIES_WITH_ADR.glob("[0-9]*.md")}
    listed = Counter(re.findall(r"\((\d{4}-[a-z0-9-]+\.md)\)", index))
    assert set(listed) == set(titles)
    wrong = [name for name, title in titles.items() if re.sub(r"^#\s*(?:ADR-)?\d{4}[.:]?\s*", "", title) not in index]
    assert wrong == []


CITED = re.compile(
    r"(?<![\w/.-])((?:docs|design|tests|src|bench|machine|codec|model|log|runtime|client|field|face|node|pipeline|sim|plant|drill|cli)(?:/[\w.-]+)+\.(?:md|py|json|st|csv|toml))\b"
)
DECISION = re.compile(r"\bADR-(\d{4})\b")


def test_each_cited_file_and_decision_exists() -> None:
    """In docstrings, comments and pages; what a room's file is called there starts at the room."""
    known = {path.name[:4] for path in DEPENDENCIES_WITH_ADR.glob("[0-9]*.md")}
    wrong = []
    for name in tracked():
        if not name.endswith((".py", ".md", ".st", ".txt")) or name.startswith(("docs/adr/", "CHANGELOG")):
            continue
        text = (ROOT / name).read_text()
        places = [one for one in CITED.findall(text) if not any((base / one).exists() for base in CITED_FROM)]
        wrong += [f"{name}: {one}" for one in places]
        wrong += [f"{name}: ADR-{number}" for number in DECISION.findall(text) if number not in known]
    assert sorted(set(wrong)) == []


CITED_FROM = (ROOT, ROOT / "docs", SOURCE)


def test_each_test_that_a_guarantee_names_exists() -> None:
    promises = (ROOT / "docs" / "guarantees.md").read_text()
    named = set(re.findall(r"\btest_\w+\.py\b", promises))
    stories = {one.rstrip("/") for one in re.findall(r"`(tests/[\w/]+/?)`", promises)}
    assert named
    assert sorted(named - {path.name for path in (ROOT / "tests").rglob("test_*.py")}) == []
    assert sorted(one for one in stories if not (ROOT / one).exists()) == []


def test_nothing_runs_under_python_O() -> None:
    """Assertions guard the data; the entry points refuse `-O`, and nothing of ours asks for it."""
    assert "sys.flags.optimize" in (SOURCE / "cli" / "__init__.py").read_text()
    assert "python -O" not in (ROOT / "Makefile").read_text()


def test_no_pattern_of_a_name_takes_a_line_break_at_its_end() -> None:
    """`$` stands before one too; msgspec searches, and `\\Z` is no word of the published schema."""
    ends = re.compile(
        r"(?:pattern=|_PATTERN(?:: Final)? = (?:\(\n\s+)?)(?:rf?\"[^\n]*\"\n\s+)*r?f?\"[^\n]*(?<!n\))\$\""
    )
    loose = [f"{name_of(path)}: {one}" for path in modules() for one in ends.findall(path.read_text())]
    assert [one for one in loose if "[^*?]*$" not in one] == []  # Any text may be looked for.
