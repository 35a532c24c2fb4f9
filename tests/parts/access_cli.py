"""Parts that tests share: `albireo access` against a real node that stands alone."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from albireo.codec.record import Audited
from albireo.node.core.actor import Core, create
from albireo.node.member.audit_trail import audits_at_end
from albireo.runtime import running
from tests.parts.core_actor import ARGUMENTS
from tests.parts.core_pair import aside


def with_node(data: Path, story: Callable[[], None]) -> list[Audited]:
    """Play the story beside a running node; returns its audit entries."""

    async def played() -> list[Audited]:
        core = create(ARGUMENTS)
        assert isinstance(core, Core)
        async with running(core, data):
            await aside(story)
            return [one for one, _ in audits_at_end(core.log)]

    return asyncio.run(played())
