"""Parts that tests share: ends of sessions where they meet the rest of a tree."""

from albireo.codec.message import Answer, Ask
from albireo.codec.tree.letters import BodyAsked, BodySent, MessageTold
from albireo.machine.kernel.config import RootConfig
from albireo.machine.kernel.events import LettersDrained
from albireo.machine.tree.beyond import PARENT_LINES
from albireo.model.instant import SECOND, Instant, TimePassed
from albireo.model.tree.message import Life, MessageName
from tests.parts.present import ANNA, DESK, PLANT
from tests.parts.root_roles import LOG, Side

SITE, ABOVE, OTHER = "root/site", "root", "root/other"


NAME = MessageName(ABOVE, SITE, Life(1, 2), 1, "default")


class Site(Side):
    """A node below that follows a sibling at its parent, and takes messages."""

    def __init__(self) -> None:
        super().__init__(RootConfig(node=SITE, log_id=LOG, parent=ABOVE, beyond=(ABOVE, OTHER)))
        self.lead()
        self.now = Instant(self.now + SECOND)
        self.step(TimePassed())
        self.commit()
        self.sent.clear()

    def ask(
        self, what: str, sender: bytes, principal: str = "local:0", request_id: int = 9, **arguments: object
    ) -> None:
        ask = Ask(request_id=request_id, what=what, arguments=arguments)
        address = DESK if principal == ANNA else PLANT
        addresses = {} if principal.startswith("local") else {sender: address}
        self.step(LettersDrained([(sender, ask, (), principal)], addresses=addresses))
        self.commit()

    def answers(self) -> list[Answer]:
        return [one for one in self.take(Answer) if isinstance(one, Answer)]

    def told(self) -> None:
        """The parent tells of a message, and its body comes as it is asked for."""
        self.letter(MessageTold(name=NAME, low=1, since=1, size=4), sender=PARENT_LINES[0])
        self.commit()
        for one in self.take(BodyAsked):
            assert isinstance(one, BodyAsked)
            sent = BodySent(
                name=NAME, low=1, since=1, guid="g", kind="recipe", size=4, offset=0, piece=b"dose", nonce=one.nonce,
                left_ms=60_000,
            )  # fmt: skip
            self.letter(sent, sender=PARENT_LINES[0])
            self.commit()
