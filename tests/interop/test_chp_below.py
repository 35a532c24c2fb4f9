"""A CHP client of plain sockets at a face of the root that serves a node two levels below."""

import asyncio
from contextlib import ExitStack
from pathlib import Path

import pytest
from click.testing import CliRunner

from albireo.cli import cli
from albireo.model import quality as q
from tests.parts.core_pair import aside, until
from tests.parts.foreign import ForeignSockets
from tests.parts.interop_chp import RfcClient, face_at
from tests.parts.tree import tree_of
from tests.parts.tree_files import NODES
from tests.parts.tree_messages import joined
from tests.parts.tree_orders import NORTH, PUMP, ROOT, device
from tests.parts.waiting import awaited

pytestmark = pytest.mark.slow

CO, SPEED = f"/{PUMP}/co".encode(), f"/{PUMP}/speed".encode()


def test_a_client_at_the_root_mirrors_a_node_below_sets_its_keys_and_sees_it_go(tmp_path: Path) -> None:
    nodes = tree_of(tmp_path, *NODES)

    async def story() -> None:
        async with nodes[ROOT].core_up() as root, nodes[NORTH].core_up() as north:
            with ExitStack() as stack:
                async with nodes[PUMP].core_up() as pump:
                    cores = (root, north, pump)
                    await until(lambda: all(one.root.tree.post.messages.is_serving for one in cores), "all serve")
                    mirror = await aside(lambda: mirrored(stack))
                    first = mirror.sequence
                await aside(lambda: mirror.wait_for(lambda: mirror.map[CO]["quality"] != "Good"))
                assert (mirror.value(CO), mirror.map[CO]["quality"]) == (4.0, "UncertainNoCommunicationLastUsable")
                assert mirror.sequence > first
                await aside(stack.close)

    def mirrored(stack: ExitStack) -> RfcClient:
        joined(nodes)
        nodes[PUMP].produce([(0, 1, 3.0, q.GOOD)])
        _, port, _ = stack.enter_context(face_at(nodes[ROOT].endpoint, is_set_allowed=True, other=PUMP))
        mirror = RfcClient(stack.enter_context(ForeignSockets()), port, f"/{PUMP}/".encode())
        mirror.synchronise()
        mirror.wait_for(lambda: mirror.value(CO) == 3.0)
        nodes[PUMP].produce([(0, 2, 4.0, q.GOOD)])
        mirror.wait_for(lambda: mirror.value(CO) == 4.0)
        with device(nodes[PUMP], nodes[ROOT]) as adapter:

            def is_ordered() -> bool:
                """Said again until the face knows the item; it is one order, for it has one id."""
                mirror.set(SPEED, b"42", b"ttl=60\n", bytes(range(16)))
                return bool(adapter.orders)

            awaited(is_ordered)
            told = CliRunner().invoke(cli, ["chp", "--of", "pumb", "--data", str(nodes[ROOT].data)])
            assert told.exit_code == 2 and f"there are: {NORTH}, {PUMP}" in told.stderr
            assert [one.value for one in adapter.orders] == [42.0]
        return mirror

    asyncio.run(story())
