"""Placement of an actor: in a process of its own, or in a thread of the node's process. It can't tell the difference.

An actor is placed by its spec, which is plain JSON: a factory by name and its arguments. Nothing is pickled, so an
actor gets nothing that could not have been written in a file. A process reads its `Launch` from stdin (a memory file,
so that no size of it can block boot), inherits the descriptor of the data directory's lock, and dies with boot.
"""

import asyncio
import importlib
import os
import re
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

import msgspec

from albireo.runtime.actor.actor import ActorContext, Behaviour, Supervised, run_actor
from albireo.runtime.actor.exits import EXIT_CONFIGURATION, EXIT_DATA, STOP_SIGNALS
from albireo.runtime.actor.first_use import settle_types
from albireo.runtime.actor.keep import ActorKeeps, Keep
from albireo.runtime.directory import DataLock
from albireo.runtime.errors import AddressTaken, ConfigurationRefused, StoreRefused
from albireo.runtime.loop import ActorLoop

EXIT_CRASHED: Final = 1
LAUNCH_BYTES_MAX: Final = 64 * 1024 * 1024
REASON_BYTES_MAX: Final = 4096
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}\Z", re.IGNORECASE)


class ActorSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One actor of a node, as data."""

    name: str
    """Unique in the node; letters, digits, `-`, `_` and `.`."""
    factory: str
    """`module:attribute`, called as `factory(arguments)`, gives the Behaviour. May raise ConfigurationRefused."""
    arguments: dict[str, object] = {}
    """Arguments of the factory, as JSON values."""
    stage: int = 0
    """Actors of one stage start together, after every essential one of the stages before runs; they stop in reverse."""
    is_essential: bool = True
    """False: its restarts never end the node; it is tried again for ever, at the longest back-off."""
    nice: int = 0
    """Niceness (nice(2)): above 0 for an actor that leaves the CPU to the others. In a thread it changes nothing."""
    is_apart: bool = False
    """True: a process of its own, wherever the other actors of the node live."""

    def __post_init__(self) -> None:
        if not _NAME.match(self.name):
            raise ValueError(f"actor name {self.name!r}: letters, digits, - _ and . only, at most 64")
        if self.factory.count(":") != 1:
            raise ValueError(f"actor {self.name}: factory {self.factory!r} is not module:attribute")


class Launch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Instructions for a new process."""

    spec: ActorSpec
    data: str
    identity: str
    boot_pid: int
    lock_descriptor: int
    log_level: str
    reason_descriptor: int
    """Descriptor of a memory file for the last words of a run that did not end cleanly."""
    keep_descriptors: tuple[int, int]
    """Both ends of the actor's keep."""


class ActorEnd(msgspec.Struct, frozen=True):
    """End of a run of an actor."""

    exit_code: int
    """0 clean; EXIT_*; negative: the signal that ended the process."""
    reason: str


class ActorPlacement(Protocol):
    """Two implementations: ProcessPlacement, ThreadPlacement. For boot's loop only."""

    def spawn(self, spec: ActorSpec, identity: bytes, on_end: Callable[[ActorEnd], object]) -> int:
        """Start a run of `spec`; returns its process id. `on_end` is called once, in boot's loop."""

    def request_stop(self, name: str) -> None:
        """Ask the actor for a clean stop; nothing happens if it does not run."""

    def kill(self, name: str) -> None:
        """End the actor at once; a process only."""

    def close(self) -> None:
        """All actors have ended: nothing is kept for them any more."""


def build(spec: ActorSpec) -> Behaviour:
    """The behaviour of a spec.

    Raises:
        ConfigurationRefused: the factory is not there or does not take the arguments.
    """
    module, _, attribute = spec.factory.partition(":")
    try:
        factory = getattr(importlib.import_module(module), attribute)
        settle_types()
        behaviour: Behaviour = factory(spec.arguments)
    except (ImportError, AttributeError, msgspec.ValidationError) as error:
        raise ConfigurationRefused(f"actor {spec.name}: {spec.factory}: {error}") from error
    return behaviour


def live(
    spec: ActorSpec, data: Path, supervised: Supervised, on_made: Callable[[ActorContext], object] | None = None
) -> ActorEnd:
    """The whole life of an actor, in the calling thread."""
    try:
        behaviour = build(spec)
        with asyncio.Runner(loop_factory=ActorLoop) as runner:
            runner.run(run_actor(behaviour, data, name=spec.name, supervised=supervised, on_made=on_made))
    except ConfigurationRefused as error:
        return ActorEnd(EXIT_CONFIGURATION, str(error))
    except StoreRefused as error:
        return ActorEnd(EXIT_CRASHED if error.may_pass else EXIT_DATA, str(error))
    except AddressTaken as error:  # Whoever listens there may go: the last run of this node, for one.
        return ActorEnd(EXIT_CRASHED, f"{error}; end who listens there, or give the node another address")
    except Exception as error:  # noqa: BLE001  # The supervisor's place: a bug ends this actor here, and only this one.
        traceback.print_exc()
        return ActorEnd(EXIT_CRASHED, "".join(traceback.format_exception_only(error)).strip())
    return ActorEnd(0, "stopped")


class ProcessPlacement:
    """Every actor in a process of its own."""

    def __init__(self, data: Path, lock: DataLock, log_level: str) -> None:
        self._data = data
        self._lock = lock
        self._log_level = log_level
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._keeps = ActorKeeps()

    def spawn(self, spec: ActorSpec, identity: bytes, on_end: Callable[[ActorEnd], object]) -> int:
        loop = asyncio.get_running_loop()
        last_words = os.memfd_create(f"albireo-{spec.name}-reason")
        try:
            process = self._start(spec, identity, last_words)
        except OSError:
            os.close(last_words)
            raise
        try:
            descriptor = os.pidfd_open(process.pid)
        except OSError:
            # NB: nobody would learn of its end, and a second run would be started beside it.
            _end(process, last_words)
            raise

        def ended() -> None:
            loop.remove_reader(descriptor)
            os.close(descriptor)
            code = process.wait()
            reason = os.pread(last_words, REASON_BYTES_MAX, 0).decode(errors="replace")
            os.close(last_words)
            if self._running.get(spec.name) is process:
                del self._running[spec.name]
            on_end(ActorEnd(code, reason or _describe(code)))

        try:
            loop.add_reader(descriptor, ended)
        except OSError:
            os.close(descriptor)
            _end(process, last_words)
            raise
        self._running[spec.name] = process
        return process.pid

    def _start(self, spec: ActorSpec, identity: bytes, last_words: int) -> subprocess.Popen[bytes]:
        lock = self._lock.descriptor
        keep = self._keeps.of(spec.name)
        launch = Launch(spec, str(self._data), identity.decode(), os.getpid(), lock, self._log_level, last_words, keep)
        with os.fdopen(os.memfd_create(f"albireo-{spec.name}"), "w+b") as stdin:
            stdin.write(msgspec.json.encode(launch))
            stdin.seek(0)
            # Held back in the child until it has handlers: it would die of one.
            before = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
            try:
                # -P: an unlucky file in the working directory must not stand in for a module.
                return subprocess.Popen(
                    [sys.executable, "-P", "-m", "albireo.runtime.actor.process", spec.name],
                    stdin=stdin,
                    pass_fds=(lock, last_words, *keep),
                )
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def request_stop(self, name: str) -> None:
        self._signal(name, signal.SIGTERM)

    def kill(self, name: str) -> None:
        self._signal(name, signal.SIGKILL)

    def close(self) -> None:
        self._keeps.close()

    def _signal(self, name: str, number: signal.Signals) -> None:
        process = self._running.get(name)
        if process is not None:
            process.send_signal(number)


class _ThreadRun:
    """A run in a thread. It may be asked to stop before its thread has made the context."""

    def __init__(self) -> None:
        self._context: ActorContext | None = None
        self._is_stopping = False

    def made(self, context: ActorContext) -> None:
        """Called in the actor's thread. Each side writes its field before it reads the other's: one stops it."""
        self._context = context
        if self._is_stopping:
            context.stop()

    def stop(self) -> None:
        """Called in boot's loop."""
        self._is_stopping = True
        if self._context is not None:
            self._context.call(self._context.stop)


class ThreadPlacement:
    """Every actor in a thread of this process. A thread that hangs can't be ended alone."""

    def __init__(self, data: Path, lock: DataLock, log_level: str) -> None:
        settle_types()
        self._data = data
        self._lock = lock
        self._log_level = log_level
        self._running: dict[str, _ThreadRun] = {}
        self._keeps = ActorKeeps()

    def spawn(self, spec: ActorSpec, identity: bytes, on_end: Callable[[ActorEnd], object]) -> int:
        loop = asyncio.get_running_loop()
        run = _ThreadRun()
        self._running[spec.name] = run
        keep = Keep(self._keeps.of(spec.name))
        supervised = Supervised(
            identity=identity, lock=self._lock, is_process=False, log_level=self._log_level, keep=keep
        )

        def ended(ending: ActorEnd) -> None:
            if self._running.get(spec.name) is run:
                del self._running[spec.name]
            on_end(ending)

        def body() -> None:
            ending = live(spec, self._data, supervised, run.made)
            if not loop.is_closed():
                loop.call_soon_threadsafe(ended, ending)

        # A daemon: the process must be able to end although one of them hangs.
        threading.Thread(target=body, name=f"actor-{spec.name}", daemon=True).start()
        return os.getpid()

    def request_stop(self, name: str) -> None:
        run = self._running.get(name)
        if run is not None:
            run.stop()

    def kill(self, name: str) -> None:
        raise AssertionError(f"{name}: a thread can't be killed")

    def close(self) -> None:
        self._keeps.close()


def _end(process: subprocess.Popen[bytes], last_words: int) -> None:
    """End a process whose end can't be watched; returns when it is gone."""
    process.kill()
    process.wait()
    os.close(last_words)


def _describe(code: int) -> str:
    if code < 0:
        try:
            return f"ended by {signal.Signals(-code).name}"
        except ValueError:
            return f"ended by signal {-code}"
    known = {0: "stopped", EXIT_CONFIGURATION: "refused its configuration", EXIT_DATA: "its data are damaged"}
    return known.get(code, f"exit code {code}")
