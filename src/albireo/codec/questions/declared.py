"""The list of all questions, and the tables of the documentation that are printed from it.

A voter and a gate have a question of their own, `status`, on links of their own; it is none of a node.
"""

from typing import Any, Final

from albireo.codec.questions import boot, cases, history, messages, node, orders, pair, people, persons, topics
from albireo.codec.questions.kind import Answerer, QuestionKind

AnyKind = QuestionKind[Any, Any]

SUBJECTS: Final = (node, cases, orders, people, persons, messages, topics, pair, history, boot)
QUESTIONS: Final[dict[str, AnyKind]] = {one.name: one for subject in SUBJECTS for one in subject.KINDS}
"""All questions, by name."""


def asked_of(answerer: Answerer) -> frozenset[str]:
    """Names of the questions that are answered there."""
    return frozenset(one.name for one in QUESTIONS.values() if one.answerer is answerer)


def roles_table() -> str:
    """Roles as a table of the documentation."""
    lines = ["| question | role | what it is |", "|---|---|---|"]
    for one in QUESTIONS.values():
        lines.append(f"| `{one.name}` | {one.role.word} | {one.meaning} |")
        lines += [f"| `{one.name} {word}` | {role.word} | |" for word, role in one.roles.items()]
    return "\n".join(lines)


def questions_table() -> str:
    """Questions as a table of the documentation."""
    lines = ["| question | answered by | arguments | may be repeated | answer |", "|---|---|---|---|---|"]
    for one in QUESTIONS.values():
        arguments = ", ".join(f"`{name}`" for name in one.arguments) or "-"
        again = "reads" if one.is_reading else "known again" if one.is_known_again else ""
        lines.append(f"| `{one.name}` | {one.answerer.value} | {arguments} | {again} | {one.told} |")
    return "\n".join(lines)
