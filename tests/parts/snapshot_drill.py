"""Parts that tests share: a pair of real processes whose holder has pruned."""

import tomllib
from typing import Any

from albireo.client import NodeRefused, NodeUnreachable, connect
from albireo.model.refusal import kind_of_code
from albireo.runtime.link.lines import LineTo
from tests.parts.process_pair import Pair, until
from tests.parts.waiting import PATIENCE_S


def members(pair: Pair) -> list[LineTo]:
    (node,) = tomllib.loads((pair.home / "plant.toml").read_text())["node"]
    return [LineTo(node[name]["client"], f"root[{name}]") for name in ("primary", "backup")]


def history(pair: Pair, member: str, what: str) -> dict[str, Any]:
    """An answer of its actor `history`, which starts a while after CORE does."""
    found: list[Any] = []

    def answers() -> bool:
        try:
            with connect(pair.data(member), timeout_s=PATIENCE_S, is_pinned=True) as client:
                found.append(client.ask(what, of="history"))
        except NodeUnreachable:
            return False
        except NodeRefused as error:
            if not kind_of_code(error.code).may_pass:
                raise
            return False
        return True

    until(answers, lambda: f"the history of {member} does not answer")
    (answer,) = found
    assert isinstance(answer, dict)
    return answer
