"""Refusals: what follows from each code, and that nothing follows from words."""

import ast
import asyncio
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from albireo.cli.output import ExitCode
from albireo.cli.target import failure_of
from albireo.client import Client, ClientError, NodeRefused, OutcomeUnknown, connect
from albireo.codec.message import Answer, AppendRefused, Ask, ProducerHello, RoleAsked, RoleTold
from albireo.model.instant import Instant
from albireo.model.refusal import REGISTRY, Refusal, RefusalCode, codes_table, kind_of_code
from albireo.runtime import running
from albireo.runtime.actor.actor import ActorContext
from albireo.runtime.link.sockets import Letter
from tests.parts.core_pair import aside
from tests.parts.early_receipts import ITEM, batch
from tests.parts.waiting import PATIENCE_S

ROOT = Path(__file__).resolve().parents[3]
CAUSE, REMEDY = "because it is so", "wait for better times"
LATER = "invented_later"


class RefusingNode:
    """A node that leads, and refuses every question and every producer with the code that it is named."""

    name = "core"

    async def start(self, actor: ActorContext) -> None:
        self.link = actor.bind("core")

    def drained(self, letters: Sequence[Letter]) -> None:
        for letter in letters:
            match letter.message:
                case RoleAsked():
                    self.link.send(RoleTold(is_acting=True, epoch=1), to=letter.sender)
                case Ask(request_id=request_id, what="refuse", arguments={"code": str(code)}):
                    answer = Answer(request_id=request_id, refusal=Refusal(code, CAUSE, REMEDY))
                    self.link.send(answer, to=letter.sender)
                case Ask(request_id=request_id):
                    self.link.send(Answer(request_id=request_id, result={}), to=letter.sender)
                case ProducerHello(producer=code, run=run):
                    refused = AppendRefused(
                        producer_id=0, producer_sequence=0, refusal=Refusal(code, CAUSE, REMEDY), is_final=True, run=run
                    )
                    self.link.send(refused, to=letter.sender)

    def ticked(self, now: Instant) -> None:
        pass

    async def stop(self) -> None:
        pass


def at_refusing_node(data: Path, story: Callable[[Client], None]) -> None:
    def work() -> None:
        with connect(data, timeout_s=PATIENCE_S) as client:
            story(client)

    async def world() -> None:
        async with running(RefusingNode(), data):
            await aside(work)

    asyncio.run(world())


def of_a_question(client: Client, code: str) -> ClientError:
    with pytest.raises(ClientError) as raised:
        client.ask("refuse", code=code, command_id="c7")
    return raised.value


def of_a_producer(client: Client, code: str) -> ClientError:
    with pytest.raises(ClientError) as raised, client.producer(code, [ITEM]) as producer:
        producer.offer([batch(1)])
        producer.wait(PATIENCE_S)
    return raised.value


def test_each_code_arrives_as_the_error_of_its_class_with_cause_remedy_and_exit_code(tmp_path: Path) -> None:
    def story(client: Client) -> None:
        for code, kind in REGISTRY.items():
            is_of_producers = kind.error in ("ProducerRefused", "NameTaken")
            error = (of_a_producer if is_of_producers else of_a_question)(client, code)
            assert type(error).__name__ == kind.error, code
            if kind.error != "NameTaken":  # Which tells of the program that has the name.
                assert CAUSE in error.cause and error.remedy == REMEDY, code
            if not is_of_producers:
                assert failure_of(error, tmp_path).exit_code == kind.exit_code, code
            if isinstance(error, NodeRefused):
                assert error.code == code
            if isinstance(error, OutcomeUnknown):
                assert error.command_id == "c7"

    at_refusing_node(tmp_path, story)


def test_a_code_of_a_newer_version_is_an_error_of_the_general_class_that_shows_all_of_it(tmp_path: Path) -> None:
    def story(client: Client) -> None:
        error = of_a_question(client, LATER)
        assert type(error) is NodeRefused and error.code == LATER
        assert all(one in str(error) for one in (LATER, CAUSE, REMEDY))
        failure = failure_of(error, tmp_path)
        assert (LATER in failure.message, failure.remedy, failure.exit_code) == (True, REMEDY, ExitCode.FAILED)
        producer = of_a_producer(client, LATER)
        assert type(producer).__name__ == "ProducerRefused" and CAUSE in producer.cause

    at_refusing_node(tmp_path, story)


def test_the_registry_tells_of_each_code_and_prints_the_table_of_the_page() -> None:
    assert set(REGISTRY) == set(RefusalCode)
    assert {kind.exit_code for kind in REGISTRY.values()} <= set(ExitCode)
    assert not kind_of_code(LATER).may_pass
    page = (ROOT / "docs" / "refusals.md").read_text()
    assert codes_table() in page, (
        'into docs/refusals.md: python -c "from albireo.model.refusal import codes_table; print(codes_table())"'
    )


WORDS = frozenset({"reason", "cause", "remedy", "detail", "message", "refusal", "stderr", "args"})
"""Names of what people read of a failure."""
LOOKS = frozenset("startswith endswith partition rpartition removeprefix removesuffix split find index count".split())
FAILURES = ("error", "refused", "refusal", "failure", "objection", "exception")
"""Ends of names of failures themselves, whose text is asked for by `str`."""


def is_words(node: ast.AST) -> bool:
    """True: the expression is the text of a failure."""
    match node:
        case ast.Call(func=ast.Name(id="str"), args=[ast.Name(id=name) | ast.Attribute(attr=name)]):
            return name.endswith(FAILURES)
        case ast.Attribute(value=ast.Name(id=name), attr=attribute):
            return attribute in WORDS and name.endswith(FAILURES)
        case ast.Attribute(value=ast.Attribute(attr=name), attr=attribute):
            return attribute in WORDS and name.endswith(FAILURES)
        case ast.Call(func=ast.Attribute(value=inner, attr="lower" | "casefold" | "strip")):
            return is_words(inner)
    return False


def choices_by_words(source: str) -> Iterator[int]:
    """Lines at which something is chosen, or cut out, by the words of a failure."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Compare(ops=ops, comparators=others):
                by_words = any(isinstance(op, ast.In | ast.NotIn) for op in ops) and any(map(is_words, others))
                is_equal = any(isinstance(op, ast.Eq | ast.NotEq) for op in ops)
                if by_words or (is_equal and any(map(is_words, [node.left, *others]))):
                    yield node.lineno
            case ast.Call(func=ast.Attribute(value=of, attr=look), args=arguments):
                is_regex = isinstance(of, ast.Name) and of.id == "re"
                if (look in LOOKS and is_words(of)) or (is_regex and any(map(is_words, arguments))):
                    yield node.lineno


@pytest.mark.parametrize(
    "former",
    [
        'if "unknown question" not in error.reason: raise',
        "if answer.error.reason.startswith(OVER): pass",
        "return any(words in str(error) for words in PASSING)",
        'cause, _, remedy = str(error).partition("; what to do: ")',
        'return Failure(error.reason.removesuffix(f"; {error.remedy}"))',
        'return re.search("not empty", str(refused))',
        'return "not empty" in str(refused)',
        'if error.cause == "it has ended already": pass',
    ],
)
def test_a_choice_by_words_is_found(former: str) -> None:
    assert list(choices_by_words(f"def f():\n    {former}")) == [2]


def test_nothing_is_chosen_by_the_words_of_a_refusal() -> None:
    """The class of an error, its exit code, a remedy, whether to ask again: all follow from codes."""
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for room in ("client", "cli", "face", "drill", "sim", "node", "machine")
        for path in sorted((ROOT / "src" / "albireo" / room).rglob("*.py"))
        for line in choices_by_words(path.read_text())
    ]
    assert found == []
