"""Questions of `albireo doctor`, one function each.

Each answers with findings, never with an exception: a question that cannot be answered here is `unknown`, which is not
the same as good.
"""

import ctypes
import errno
import math
import os
import resource
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from albireo.cli.findings import (
    NODE_INSTALL,
    NODE_LIBRARIES,
    SPARK_LIBRARIES,
    Finding,
    Status,
    java,
    libraries,
    version_of,
)
from albireo.cli.output import progress
from albireo.cli.site.names import names_here
from albireo.log.descriptors import DESCRIPTORS
from albireo.model.topology import NodeConfig, Topology, places
from albireo.node.membership.door import DoorArguments
from albireo.pipeline.errors import INSTALL
from albireo.runtime.clock import boot_ns
from albireo.runtime.link.names import NAMES

SYNC_ROUNDS: Final = 200
SYNC_BYTES: Final = 4_096
SYNC_P99_MS: Final = 50.0
"""Slowest good sync, ms: above it a commit misses the 20 ms aim so often that the promised rates can't be held."""
FREE_FAILED: Final = 256 * 1024 * 1024
"""Free space below which a node fails: one segment, a prepared one, and room for a history file."""
FREE_WARNING: Final = 4 * 1024 * 1024 * 1024
FILES_WARNING: Final = 1_024
"""A node of 30 adapters, each with sockets and pipes of its own, comes near it."""
NAME_REMEDY: Final = "correct it in the name server or /etc/hosts of this machine, or write the address instead"
CLOCK_ERROR_MS: Final = 100.0
"""Largest error of the wall clock that leaves times of two machines comparable."""
VOLATILE: Final = frozenset({"tmpfs", "ramfs", "overlay"})
NETWORKED: Final = frozenset({"nfs", "nfs4", "cifs", "smb3", "fuse.sshfs", "9p"})


def examine(data: Path, topology: Topology | None) -> list[Finding]:
    """Every question, in the order of the table."""
    findings = [*python(), *node_libraries(), *disk(data), *limits(), *clock()]
    if version_of("pyspark"):
        findings.append(java("warning"))
    if topology is not None:
        findings += [*names(topology), *ports(topology), *doors(data, topology)]
    return findings


def python() -> Iterator[Finding]:
    version = sys.version.split()[0]
    good = sys.version_info >= (3, 11)
    yield Finding(name="python", status="good" if good else "failed", value=f"{version} at {sys.executable}")
    if sys.flags.optimize:
        remedy = "start it without -O and without PYTHONOPTIMIZE: assertions guard the data"
        yield Finding(name="python -O", status="failed", value="assertions are off", remedy=remedy)


def node_libraries() -> Iterator[Finding]:
    """Versions of what a node needs, and of what the pipeline needs where it is installed."""
    yield from libraries(NODE_LIBRARIES, NODE_INSTALL, "failed")
    if any(map(version_of, SPARK_LIBRARIES)):
        yield from libraries(SPARK_LIBRARIES, INSTALL, "warning")
    else:
        yield Finding(name="pipeline", status="good", value=f"not installed; a node does not need it; {INSTALL}")


def disk(data: Path) -> Iterator[Finding]:
    """Room, kind and speed of the disk below the data directory, or below the nearest directory that exists."""
    directory = next(one for one in (data, *data.absolute().parents) if one.is_dir())
    free = shutil.disk_usage(directory).free
    status: Status = "failed" if free < FREE_FAILED else "warning" if free < FREE_WARNING else "good"
    remedy = "" if status == "good" else "make room, or name another disk with --data"
    yield Finding(name="disk free", status=status, value=f"{free / 1e9:.1f} GB at {directory}", remedy=remedy)
    kind = _file_system(directory)
    yield _judged_file_system(kind)
    try:
        yield sync_latency(directory)
    except OSError as error:
        value = f"{directory}: {error.strerror}"
        yield Finding(name="sync latency", status="failed", value=value, remedy="the node must be able to write here")


def _judged_file_system(kind: str) -> Finding:
    if kind in NETWORKED:
        remedy = "put the data directory on a local disk: a sync over the network is slow and may be untrue"
        return Finding(name="file system", status="warning", value=kind, remedy=remedy)
    if kind in VOLATILE:
        remedy = "what is kept here may be gone after a restart: name a disk with --data"
        return Finding(name="file system", status="warning", value=kind, remedy=remedy)
    return Finding(name="file system", status="good" if kind else "unknown", value=kind or "not told by this system")


def _file_system(directory: Path) -> str:
    """Type of the mount that holds `directory`; empty where the system does not tell."""
    try:
        mounts = Path("/proc/self/mounts").read_text().splitlines()
    except OSError:
        return ""
    best = ("", "")
    for line in mounts:
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = fields[1].replace("\\040", " ")
        if directory.resolve().is_relative_to(point) and len(point) >= len(best[0]):
            best = (point, fields[2])
    return best[1]


def sync_latency(directory: Path) -> Finding:
    """p50 and p99 of a write and sync of one page into a zero-filled file, as the log does it.

    Raises:
        OSError: the directory can't be written.
    """
    took: list[float] = []
    with tempfile.NamedTemporaryFile(dir=directory, prefix=".albireo-doctor-") as file:
        descriptor = file.fileno()
        os.pwrite(descriptor, bytes(SYNC_ROUNDS * SYNC_BYTES), 0)
        os.fsync(descriptor)
        page = bytes(range(256)) * (SYNC_BYTES // 256)
        with progress("Measuring the disk", SYNC_ROUNDS) as advance:
            for index in range(SYNC_ROUNDS):
                begun = boot_ns()
                os.pwrite(descriptor, page, index * SYNC_BYTES)
                os.fdatasync(descriptor)
                took.append((boot_ns() - begun) / 1e6)
                advance(1, "")
    took.sort()
    p50, p99 = took[len(took) // 2], took[math.ceil(0.99 * len(took)) - 1]
    is_slow = p99 > SYNC_P99_MS
    return Finding(
        name="sync latency",
        status="warning" if is_slow else "good",
        value=f"p50 {p50:.2f} ms, p99 {p99:.2f} ms ({SYNC_ROUNDS} x {SYNC_BYTES} B)",
        remedy="slow for a log: commits wait for it; is something else writing to this disk?" if is_slow else "",
    )


def limits() -> Iterator[Finding]:
    """File descriptors and memory."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)  # Each process raises its soft limit itself.
    shown = "unlimited" if hard == resource.RLIM_INFINITY else f"at most {hard}"
    is_low = hard != resource.RLIM_INFINITY and hard < FILES_WARNING
    remedy = f"ulimit -Hn {DESCRIPTORS}, as root; under systemd: LimitNOFILE=" if is_low else ""
    yield Finding(name="open files", status="warning" if is_low else "good", value=shown, remedy=remedy)
    import psutil

    memory = psutil.virtual_memory()
    is_little = memory.available < 300 * 1024 * 1024
    remedy = "an idle node takes about 200 MB in thread placement: free some" if is_little else ""
    value = f"{memory.available / 1e9:.1f} GB of {memory.total / 1e9:.1f} GB free, {os.cpu_count()} cores"
    yield Finding(name="memory", status="warning" if is_little else "good", value=value, remedy=remedy)


class _Timex(ctypes.Structure):
    """`struct timex` of Linux (adjtimex(2)), as far as it is read."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_byte * 512),
    )


def clock() -> Iterator[Finding]:
    """Is the wall clock disciplined, and is there a boot clock?"""
    yield Finding(name="boot clock", status="good", value=f"{boot_ns() / 3.6e12:.1f} h since boot")
    adjtimex = getattr(ctypes.CDLL(None, use_errno=True), "adjtimex", None)
    state = _Timex()
    if adjtimex is None or adjtimex(ctypes.byref(state)) < 0:
        yield Finding(name="clock sync", status="unknown", value="this system does not tell")
        return
    error_ms = state.maxerror / 1e3
    is_unsynchronised = bool(state.status & 0x40)  # STA_UNSYNC
    if is_unsynchronised:
        remedy = "times of this machine can't be compared with others: start chrony, ntpd or systemd-timesyncd"
        yield Finding(name="clock sync", status="warning", value="not synchronised", remedy=remedy)
        return
    is_far = error_ms > CLOCK_ERROR_MS
    remedy = "look at the time server: chronyc tracking, or timedatectl timesync-status" if is_far else ""
    value = f"synchronised, error at most {error_ms:.1f} ms"
    yield Finding(name="clock sync", status="warning" if is_far else "good", value=value, remedy=remedy)


def names(topology: Topology) -> Iterator[Finding]:
    """Meaning of the names of hosts on this machine."""
    own = socket.gethostname().partition(".")[0]
    for host, one in names_here(topology).items():
        is_away = bool(one.addresses) and host.partition(".")[0] != own and host != "localhost"
        is_wrong = is_away and all(ip_address(number).is_loopback for number in one.addresses)
        told = one.text(host) + (", which is this machine, not one called so" if is_wrong else "")
        is_good = not is_wrong and not one.trouble
        remedy = "" if is_good else NAME_REMEDY
        yield Finding(name=f"name {host}", status="good" if is_good else "warning", value=told, remedy=remedy)


def ports(topology: Topology) -> Iterator[Finding]:
    """Our own addresses that lie on this machine; `names` has looked them up."""
    for node in topology.node:
        for where, endpoint in _own_endpoints(node):
            finding = _bindable(f"port of {where}", endpoint)
            if finding is not None:
                yield finding


def doors(data: Path, topology: Topology) -> Iterator[Finding]:
    """Whether the door of each lone node will be open, as far as its keys are below this data directory."""
    for place in places(topology):
        if place.member or not place.endpoint:
            continue
        keys = next((one for one in (data, data / place.directory_name) if (one / "keys").is_dir()), None)
        arguments = DoorArguments(
            endpoint=place.endpoint,
            keys="" if keys is None else str(keys / "keys"),
            is_open_without_keys=place.node.open_on_loopback,
        )
        why, remedy = arguments.closed_because(place.name, data)
        status: Status = "warning" if why else "good"
        yield Finding(name=f"door of {place.name}", status=status, value=why or "open", remedy=remedy)


def _own_endpoints(node: NodeConfig) -> Iterator[tuple[str, str]]:
    if node.endpoint:
        yield node.id, node.endpoint
    for name, member in (("primary", node.primary), ("backup", node.backup)):
        if member is not None:
            yield f"{node.id}[{name}]", member.client
            yield from ((f"{node.id}[{name}] peer", peer) for peer in member.peer)


def _bindable(name: str, endpoint: str) -> Finding | None:
    """Whether the port is free; None when the address is another machine's."""
    parts = urlsplit(endpoint.replace("//*:", "//0.0.0.0:"))
    host, port = next(iter(NAMES.addresses(parts.hostname or "")), ""), parts.port or 0
    if not host:
        return None
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            remedy = f"somebody listens there already (the node itself?): ss -ltnp 'sport = :{port}'"
            return Finding(name=name, status="warning", value=f"{endpoint} in use", remedy=remedy)
        if error.errno in (errno.EACCES, errno.EPERM):
            remedy = "ports below 1024 need a privilege: take a higher one"
            return Finding(name=name, status="failed", value=f"{endpoint} not allowed", remedy=remedy)
        return None
    return Finding(name=name, status="good", value=f"{endpoint} free")
