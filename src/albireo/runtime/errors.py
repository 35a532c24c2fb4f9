"""Errors of the runtime.

RuntimeFault
├── DataLocked            another node holds the data directory
├── DirectoryUnsafe       the data or run directory is not ours alone
├── AddressTaken          somebody else answers on the name that was to be bound
├── NodeSilent       no node answers in that data directory
├── PeerUnreachable       nobody answers at that endpoint, or not with a key that is trusted
├── EndpointRefused       an endpoint that is none, or that must not be used without keys
├── KeysRefused           keys that are missing, damaged, open to others, or must not be trusted
├── MailboxFull           a mailbox with the overflow rule FAIL is full
├── ActorFailed           an actor gave up on its own (ActorContext.fail) or was refused its link
├── ConfigurationRefused  an actor cannot start with what it was given; trying again does not help
├── StoreRefused          an actor can't open what it keeps on the disk
├── AnswerRefused         a question to boot can't be answered, or what it asks for can't be done
├── StartFailed           the supervisor gave up before everything ran
└── ActorHung             a thread does not end; only the end of the process releases what it holds
"""

from pathlib import Path

from albireo.model.refusal import Refusal


class RuntimeFault(Exception):
    """Root of this package's errors."""


class AnswerRefused(RuntimeFault):
    """The refusal is for who asked."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(str(refusal))
        self.refusal = refusal


class DataLocked(RuntimeFault):
    def __init__(self, data: Path, pid: int) -> None:
        holder = f"process {pid}" if pid else "another process"
        super().__init__(f"{data} is in use by {holder}: stop that node first, or give this one a --data of its own")
        self.data = data
        self.pid = pid


class DirectoryUnsafe(RuntimeFault):
    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class AddressTaken(RuntimeFault):
    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"link {name!r}: {reason}")
        self.name = name
        self.reason = reason


class NodeSilent(RuntimeFault):
    def __init__(self, data: Path, name: str, reason: str) -> None:
        super().__init__(f"{name} of the node in {data} does not answer: {reason}")
        self.data = data
        self.name = name
        self.reason = reason


class PeerUnreachable(RuntimeFault):
    def __init__(self, endpoint: str, reason: str) -> None:
        super().__init__(f"{endpoint} does not answer: {reason}")
        self.endpoint = endpoint
        self.reason = reason


class EndpointRefused(RuntimeFault):
    def __init__(self, endpoint: str, reason: str) -> None:
        super().__init__(f"endpoint {endpoint!r}: {reason}")
        self.endpoint = endpoint
        self.reason = reason


class KeysRefused(RuntimeFault):
    def __init__(self, path: Path | None, reason: str, remedy: str) -> None:
        self.cause = reason if path is None else f"{path}: {reason}"
        super().__init__(f"{self.cause}; {remedy}")
        self.path = path
        self.reason = reason
        self.remedy = remedy


class MailboxFull(RuntimeFault):
    def __init__(self, name: str, capacity: int) -> None:
        super().__init__(f"mailbox {name} is full ({capacity})")
        self.name = name
        self.capacity = capacity


class ActorFailed(RuntimeFault):
    def __init__(self, actor: str, reason: str) -> None:
        super().__init__(f"{actor}: {reason}")
        self.actor = actor
        self.reason = reason


class ConfigurationRefused(RuntimeFault):
    """Raised by a behaviour's `start`: ends the node with exit code 78 instead of a restart."""


class StoreRefused(RuntimeFault):
    """Raised by a behaviour's `start`: tried again if it may pass by itself, else the node ends with exit code 65."""

    def __init__(self, reason: str, *, may_pass: bool) -> None:
        """`may_pass`: another process may release the store, or the disk may work again."""
        super().__init__(reason)
        self.may_pass = may_pass


class StartFailed(RuntimeFault):
    def __init__(self, reason: str, exit_code: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.exit_code = exit_code


class ActorHung(RuntimeFault):
    def __init__(self, actors: tuple[str, ...]) -> None:
        super().__init__(f"{', '.join(actors)}: the thread does not end")
        self.actors = actors
