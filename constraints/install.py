"""Install one layer of the lock files into .venv, optionally another beside a command.

    python3 constraints/install.py LAYER [--beside LAYER -- COMMAND...]

Runs on a bare Python 3.11, before anything is installed, so it uses the standard library only. Layers hold one
another: node < spark < dev. What is installed is remembered by the content of the lock file, so a second call costs
nothing but the question to .venv whose code it runs: one that was moved or copied, whose Python is gone or older, or
that was never completed is made anew. Nothing is written to stdout, which belongs to the command that `--beside` runs.

`--beside spark -- COMMAND` starts the installation of the second layer in the background, runs COMMAND in the
foreground, and returns its exit code. How far it is stands in `var/spark-install.*` (docs/demo-install.md).
"""

import ast
import contextlib
import errno
import fcntl
import hashlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
MARKS = ROOT / "var"
LAYERS = ("node", "spark", "dev")
BYTES_WRITTEN = {"node": 400_000_000, "spark": 4_000_000_000, "dev": 680_000_000}
"""Bytes that pip writes for what a layer adds, temporary ones included: the length of the progress bar. Measured;
of `dev` that what it got since is added by its size."""
LINES_KEPT = 30
"""Lines of pip's output shown after a failure."""
SETTINGS = frozenset(
    "index-url extra-index-url find-links no-index trusted-host proxy cert client-cert timeout default-timeout retries "
    "cache-dir no-cache-dir keyring-provider use-feature".split()
)
"""Settings of pip that say how packages are reached; all others are meant for other installations."""
REMEDIES = {
    os.strerror(errno.ENOSPC): "make room on the disk of this checkout and on that of TMPDIR",
    os.strerror(errno.EDQUOT): "make room within the quota of this user",
    os.strerror(errno.EROFS): "copy the checkout to a disk that may be written",
    os.strerror(errno.EACCES): "be the user to whom this checkout belongs",
    os.strerror(errno.EPERM): "be the user to whom this checkout belongs",
    "DO NOT MATCH THE HASHES": "name a package index that has the very files of constraints/*.txt",
    "onfiguration file": "mend the pip.conf that is named",
    "": "check the connection to the package index (pip config list)",
}
"""What to do, by a word of the cause; the last one stands for all others."""


def main(arguments: list[str]) -> int:
    if not arguments or arguments[0] not in LAYERS:
        say(__doc__ or "")
        return 2
    complaint = python_complaint()
    if complaint:
        say(f"albireo: {complaint}")
        return 78
    layer, rest = arguments[0], arguments[1:]
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))  # Not without ending pip.
    try:
        install(layer, Bar(layer))
    except InstallFailed as error:
        say(f"albireo: {error}")
        return 1
    except KeyboardInterrupt:
        say("albireo: broken off; the next make begins where it has to")
        return 130
    if not rest:
        return 0
    if rest[0] != "--beside" or len(rest) < 4 or rest[1] not in LAYERS or rest[2] != "--":
        say(__doc__ or "")
        return 2
    return run_beside(rest[1], rest[3:])


def say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def python_complaint() -> str:
    """Why this Python will not do, with the remedy; empty when it will."""
    if sys.version_info < (3, 11):  # noqa: UP036  # Older ones come this far: it is what they are told here.
        return f"Python 3.11 or newer is needed, this is {sys.version.split()[0]}. Try: make PYTHON=python3.11"
    try:
        import ensurepip  # noqa: F401  # Debian ships Python without it.
        import venv  # noqa: F401
    except ImportError:
        return "this Python has no venv module. On Debian and Ubuntu: apt install python3-venv"
    return ""


class InstallFailed(Exception):
    """It could not be installed; says why and what to do."""

    def __init__(self, what: str, cause: str, remedy: str = "") -> None:
        """`cause`: text in which the remedy's word is looked for."""
        remedy = remedy or next(told for word, told in REMEDIES.items() if word in cause)
        super().__init__(f"{what}\nWhat to do: {remedy}, then run make again")


def install(layer: str, progress: "Bar") -> None:
    """Bring .venv up to `layer`, unless a layer that holds it is there already.

    Raises:
        InstallFailed: it can't be.
    """
    try:
        _install(layer, progress)
    except OSError as error:
        raise InstallFailed(str(error), str(error)) from error


def _install(layer: str, progress: "Bar") -> None:
    if is_installed(layer) and not misfit():
        return
    MARKS.mkdir(exist_ok=True)
    with alone():
        reason = misfit()
        if is_installed(layer) and not reason:
            return
        if VENV.is_symlink():
            lacks = reason or f"it lacks what constraints/{layer}.txt or pyproject.toml asks for"
            raise InstallFailed(
                f".venv is a link to {VENV.readlink()}: {lacks}", "", "remove the link, or make it there"
            )
        started = time.monotonic()
        if reason:
            if VENV.exists():
                say(f"albireo: .venv is made anew: {reason}")
                shutil.rmtree(VENV)
                progress.expect()
            progress.step("creating .venv")
            # Not sys.executable, which may have been in there.
            run([getattr(sys, "_base_executable", sys.executable), "-m", "venv", str(VENV)], progress)
        python = str(VENV / "bin" / "python")
        pip = [python, "-m", "pip", "--disable-pip-version-check", "install", "--no-input"]
        drop_unfinished()
        settings = pip_settings(python)
        run([*pip, "--require-hashes", "-r", f"constraints/{layer}.txt"], progress, settings)
        if not is_project_installed():
            progress.step("installing albireo itself")
            run([*pip, "--no-deps", "--no-build-isolation", "-e", "."], progress, settings)
            stamp("project").write_text(digest(ROOT / "pyproject.toml"))
        for held in LAYERS[: LAYERS.index(layer) + 1]:
            stamp(held).write_text(digest(lock_file(held)))
        progress.finish(time.monotonic() - started)


def misfit() -> str:
    """Why .venv is not what stands here, as it says itself; empty: it is. A linked one may run the code of others."""
    python = VENV / "bin" / "python"
    ask = "import sys, importlib.util as of; print(sys.version_info >= (3, 11)); print(of.find_spec('albireo').origin)"
    try:
        asked = subprocess.run([python, "-I", "-c", ask], cwd=ROOT, capture_output=True, text=True, check=False)
    except OSError:
        return "its Python is gone"
    is_new, code = (*asked.stdout.splitlines(), "", "")[:2]
    if is_new != "True":
        return "its Python is older than 3.11, or does not start"
    if VENV.is_symlink():
        return ""
    if not code or not (VENV / "bin" / "albireo").exists():
        return "this checkout was moved, or it was never completed"
    return "" if Path(code).is_relative_to(ROOT / "src") else f"it runs the code of {code}"


def own_environment() -> dict[str, str]:
    """This environment without what others set for their Python and their pip."""
    kept = {"PIP_CONFIG_FILE", *map(variable, SETTINGS)}
    foreign = ("PIP_", "PYTHON")
    return {name: value for name, value in os.environ.items() if name in kept or not name.startswith(foreign)}


def variable(setting: str) -> str:
    return f"PIP_{setting.upper().replace('-', '_')}"


def pip_settings(python: str) -> dict[str, str]:
    """How packages are reached, of all that the files and variables of pip say, as variables.

    Raises:
        InstallFailed: pip can't read its files.
    """
    command = [python, "-m", "pip", "config", "list"]
    whole = {
        "PIP_USER": "0",
        "PIP_GLOBAL": "0",
        "PIP_SITE": "0",
        "PIP_QUIET": "0",
    }  # Else `user = true` hides all others.
    asking = {**own_environment(), **whole}
    told = subprocess.run(command, cwd=ROOT, env=asking, capture_output=True, text=True, check=False)
    if told.returncode:
        raise InstallFailed(f"pip can't read its settings: {told.stderr.strip()}", told.stderr)
    found = {"PIP_CONFIG_FILE": os.devnull}
    lines = [line.partition("=") for line in told.stdout.splitlines()]
    for section in ("global.", "install.", ":env:."):  # What comes later holds.
        for name, _, value in lines:
            key = name.removeprefix(section)
            if key != name and key in SETTINGS:
                found[variable(key)] = str(ast.literal_eval(value))
    return found


def drop_unfinished() -> None:
    """Forget packages whose installation was cut off (Ctrl-C, power): pip would take them for installed.

    pip writes `INSTALLER` after all other files of a package.
    """
    for entry in VENV.glob("lib/python*/site-packages/*.dist-info"):
        if not (entry / "INSTALLER").exists():
            shutil.rmtree(entry)


def lock_file(layer: str) -> Path:
    return ROOT / "constraints" / f"{layer}.txt"


def stamp(layer: str) -> Path:
    return VENV / f".installed-{layer}"


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def is_installed(layer: str) -> bool:
    return _stands(stamp(layer), lock_file(layer)) and is_project_installed()


def is_project_installed() -> bool:
    return _stands(stamp("project"), ROOT / "pyproject.toml")


def _stands(mark: Path, source: Path) -> bool:
    return mark.exists() and mark.read_text() == digest(source)


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """One installation at a time in this checkout: a second `make` waits for the first."""
    with (MARKS / "install.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def run(command: list[str], progress: "Bar", settings: dict[str, str] | None = None) -> None:
    """Run pip or venv with these variables, showing how far it is.

    Raises:
        InstallFailed: it ended with an error.
    """
    lines: list[str] = []
    with tempfile.TemporaryDirectory(prefix="albireo-install-") as scratch:
        environment = {**own_environment(), **(settings or {}), "TMPDIR": scratch, "PYTHONUNBUFFERED": "1"}
        environment["PIP_PROGRESS_BAR"] = "off"
        with subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,  # A Ctrl-C reaches it once, from here: the second would end what undoes the first.
        ) as child:
            progress.watch(Path(scratch))
            try:
                assert child.stdout is not None
                for line in child.stdout:
                    lines = [*lines[1 - LINES_KEPT :], line.rstrip()]
                    progress.take(line)
            except BaseException:
                os.killpg(child.pid, signal.SIGINT)
                raise
            finally:
                progress.unwatch()
    if child.returncode:
        said = "\n  ".join(lines)
        raise InstallFailed(f"`{' '.join(command[1:])}` ended with {child.returncode}:\n  {said}", said)


class Bar:
    """Progress of one layer: on a terminal one line, else a line each ten seconds; optionally into a file."""

    def __init__(self, layer: str, path: Path | None = None, *, log: Path | None = None) -> None:
        self._layer = layer
        self.expect()
        self._path = path
        self._log = log
        self._is_terminal = path is None and sys.stderr.isatty()
        self._step = "starting"
        self._written = 0
        self._said = 0.0
        self._showing = threading.Lock()
        self._done = threading.Event()
        self._watcher: threading.Thread | None = None

    def expect(self) -> None:
        """Everything that is not installed as of now."""
        added = LAYERS[: LAYERS.index(self._layer) + 1]
        self._total = sum(BYTES_WRITTEN[one] for one in added if not is_installed(one)) or 1

    def step(self, text: str) -> None:
        self._step = text
        self._show()

    def take(self, line: str) -> None:
        """One line of pip's output."""
        if self._log:
            with self._log.open("a") as log:
                log.write(line)
        words = line.split()
        if len(words) >= 2 and words[0] in ("Collecting", "Downloading", "Building", "Installing"):
            name = words[1].rsplit("/", 1)[-1] if words[0] != "Installing" else f"{len(words) - 3} packages"
            self.step(f"{words[0].lower()} {name}")

    def watch(self, scratch: Path) -> None:
        """Count what pip writes below `scratch` and into .venv, until `unwatch`."""
        self._done.clear()
        self._watcher = threading.Thread(target=self._count, args=(scratch,), daemon=True)
        self._watcher.start()

    def unwatch(self) -> None:
        self._done.set()
        if self._watcher:
            self._watcher.join()

    def finish(self, seconds: float) -> None:
        self._step, self._written = f"done in {seconds:.0f} s", max(self._written, self._total)
        self._show()
        if self._path is None:
            end = "\n" if self._is_terminal else f"albireo: {self._layer} layer installed in {seconds:.0f} s\n"
            sys.stderr.write(end)

    def _count(self, scratch: Path) -> None:
        at_start, before = self._written, size_of(VENV)
        highest: dict[str, int] = {}
        while not self._done.wait(1.0):
            for entry in entries(scratch):
                highest[entry.name] = max(highest.get(entry.name, 0), size_of(pathlib.Path(entry.path)))
            self._written = at_start + sum(highest.values()) + max(0, size_of(VENV) - before)
            self._show()

    def _show(self) -> None:
        """Called by pip's reader and by the counting thread."""
        with self._showing:
            self._show_alone()

    def _show_alone(self) -> None:
        share = min(self._written / self._total, 1.0 if self._step.startswith("done") else 0.99)
        if self._path:
            state = {"layer": self._layer, "share": round(share, 3), "bytes": self._written, "step": self._step}
            aside = self._path.with_suffix(".aside")
            aside.write_text(json.dumps(state) + "\n")
            aside.replace(self._path)
        elif self._is_terminal:
            width = shutil.get_terminal_size().columns
            bar = ("#" * round(30 * share)).ljust(30, ".")
            sys.stderr.write(f"\r{self._layer} layer [{bar}] {share:4.0%} {self._step}"[: width - 1] + "\x1b[K")
            sys.stderr.flush()
        elif time.monotonic() - self._said > 10:
            self._said = time.monotonic()
            sys.stderr.write(f"albireo: installing the {self._layer} layer, {share:.0%}, {self._step}\n")


def entries(directory: Path) -> list["os.DirEntry[str]"]:
    with contextlib.suppress(OSError), os.scandir(directory) as found:
        return list(found)
    return []


def size_of(path: Path) -> int:
    """Bytes below `path`; what vanishes meanwhile counts nothing."""
    total = 0
    waiting = [path]
    while waiting:
        one = waiting.pop()
        with contextlib.suppress(OSError):
            if one.is_dir() and not one.is_symlink():
                waiting += [pathlib.Path(entry.path) for entry in entries(one)]
            else:
                total += one.lstat().st_size
    return total


def run_beside(layer: str, command: list[str]) -> int:
    """Run `command`, with `layer` being installed beside it; what is unfinished at its end is stopped."""
    marks = {end: MARKS / f"{layer}-install.{end}" for end in ("done", "failed", "log", "progress")}
    for mark in marks.values():
        mark.unlink(missing_ok=True)
    installer = None
    if is_installed(layer):
        marks["done"].touch()
    else:
        installer = subprocess.Popen(
            [sys.executable, __file__, "--background", layer],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    try:
        return run_in_foreground(command)
    finally:
        if installer and installer.poll() is None:
            os.killpg(installer.pid, signal.SIGTERM)
            installer.wait()


def run_in_foreground(command: list[str]) -> int:
    """Run `command` with this terminal: a Ctrl-C reaches it directly, SIGTERM and SIGHUP are passed on."""
    # A handler, not SIG_IGN: what is ignored stays ignored in the child, a handler does not outlive exec.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    child = subprocess.Popen(command, cwd=ROOT)
    others = (signal.SIGTERM, signal.SIGHUP)
    before_others = [signal.signal(one, lambda number, _: child.send_signal(number)) for one in others]
    try:
        code = child.wait()
    finally:
        signal.signal(signal.SIGINT, before)
        for number, handler in zip(others, before_others, strict=True):
            signal.signal(number, handler)
    return code if code >= 0 else 128 - code


def install_in_background(layer: str) -> int:
    """The other end of `run_beside`: leaves `done` or `failed`, the log and the progress below var/."""

    def mark(end: str) -> Path:
        return MARKS / f"{layer}-install.{end}"

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    progress = Bar(layer, mark("progress"), log=mark("log"))
    progress.step("waiting for its turn")
    try:
        install(layer, progress)
    except InstallFailed as error:
        mark("failed").write_text(f"{error}\n")
        return 1
    except SystemExit:
        mark("failed").write_text("stopped before it was done; `make demo` starts it again\n")
        raise
    mark("done").touch()
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--background"] and len(sys.argv) == 3:
        sys.exit(install_in_background(sys.argv[2]))
    sys.exit(main(sys.argv[1:]))
