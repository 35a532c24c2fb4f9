"""The answer of a demo: the account of each node, the copies of the sites at the root, the orders and the cuts."""

from pathlib import Path
from typing import Any, Final

import msgspec

from albireo.cli.demo.account import DemoAccount, account_of, stood_by
from albireo.cli.demo.copies import CopyAccount, copy_account
from albireo.cli.demo.processes import LOG
from albireo.cli.demo.recording import Recorded, RecordedNode
from albireo.cli.demo.tree import ROOT, SITES
from albireo.codec.errors import DecodeError
from albireo.model.instant import SECOND
from albireo.model.status import CommitDelay
from albireo.node.history.below.folders import roots_of
from albireo.node.history.errors import HistoryError
from albireo.plant.tunnel.plc.plcs import PLCS

NOTHING: Final = DemoAccount(
    seconds=0.0,
    samples_acquired=0,
    samples_committed=0,
    samples_dropped=0,
    cases_raised=0,
    log={"epoch": 0, "sequence": 0, "bytes": 0},
    history={"files": 0, "rows": 0, "gaps": 0},
)
SUMS: Final = ("samples_acquired", "samples_committed", "samples_dropped", "cases_raised")
"""Figures that are told of all nodes together."""


class DemoTold(msgspec.Struct, frozen=True, kw_only=True):
    """All of it; the report of the pipeline comes besides."""

    root: Path
    """Data directory of the member of the root that acted last."""
    answer: dict[str, Any]
    """Keys of `--json`."""
    complaints: list[str]
    """Everything that did not hold, one sentence each."""

    def lines(self) -> list[str]:
        """The same for people."""
        answer = self.answer
        p50, p99 = (f"{one:.1f}" if one is not None else "-" for one in answer["acquire_to_commit_ms"].values())
        commands, cuts = answer["commands"], answer["cuts"]
        cut_off = commands["failed_while_cut"]
        why = f" ({cut_off} of them as the cable to the site was cut: never carried out)" if cut_off else ""
        return [
            f"{answer['seconds']:.1f} s: {answer['samples_acquired']} samples acquired,"
            f" {answer['samples_committed']} committed, {answer['cases_raised']} cases raised;"
            f" committed within {p50} ms (median), {p99} ms (99 %)",
            *(
                f"{node}: {one['rows']} samples at the root, {one['lost']} lost, {one['doubled']} twice"
                for node, one in answer["watermarks"].items()
            ),
            f"{commands['sent']} orders from the root: {commands['verified']} verified,"
            f" {commands['failed']} failed{why}, {commands['unknown']} unknown",
            *(
                f"{one['node']} was cut off for {one['seconds']:.1f} s; it recorded {one['records']} records meanwhile"
                for one in cuts
            ),
        ]


def told_of(recorded: Recorded, since_ns: int) -> DemoTold:
    """The answer, from what lies on disk after the stop.

    Args:
        since_ns: begin of the demo (wall time); what was appended before is not counted.
    """
    complaints: list[str] = []
    takeovers = {
        node: one.has_another_epoch or stood_by(one.data / LOG, since_ns) for node, one in recorded.nodes.items()
    }
    accounts = {
        node: _account(node, one, since_ns, complaints, had_takeover=takeovers[node])
        for node, one in recorded.nodes.items()
    }
    times = {
        node: one.status.acquire_to_commit_ms if one.status else CommitDelay() for node, one in recorded.nodes.items()
    }
    sites = [accounts[site] for site in SITES]
    slowest = max((times[site] for site in SITES), key=lambda one: one.p99 or 0.0)
    answer = {
        "seconds": max(one.seconds for one in sites),
        **{what: sum(getattr(one, what) for one in accounts.values()) for what in SUMS},
        "acquire_to_commit_ms": msgspec.to_builtins(slowest),
        "log": accounts[ROOT].log,
        "history": {what: sum(one.history[what] for one in accounts.values()) for what in NOTHING.history},
        "nodes": {
            node: {
                **msgspec.to_builtins(accounts[node]),
                "acquire_to_commit_ms": msgspec.to_builtins(times[node]),
                "had_takeover": takeovers[node],
            }
            for node in recorded.nodes
        },
        "watermarks": {site: _watermark(recorded, site, since_ns, complaints) for site in SITES},
        "commands": msgspec.to_builtins(recorded.commands),
        "cuts": msgspec.to_builtins(recorded.cuts),
    }
    complaints += [one.complaint for one in recorded.cuts if one.caught_up_s is None]
    return DemoTold(root=recorded.nodes[ROOT].data, answer=answer, complaints=complaints)


def _account(
    node: str, recorded: RecordedNode, since_ns: int, complaints: list[str], *, had_takeover: bool
) -> DemoAccount:
    try:
        account = account_of(recorded.data, since_ns, frozenset(PLCS))
    except (OSError, DecodeError) as error:
        complaints.append(f"the history of {node} cannot be read: {error}")
        return NOTHING
    complaints += [f"{node}: {one}" for one in account.complaints(had_takeover=had_takeover)]
    return account


def _watermark(recorded: Recorded, site: str, since_ns: int, complaints: list[str]) -> dict[str, Any]:
    """How far the root had the site's log, and its copy of the samples against the site's own."""
    row = recorded.rows.get(site)
    try:
        *_, there = roots_of(recorded.nodes[ROOT].data, site)
        copy = copy_account(recorded.nodes[site].data / "history", there, since_ns)
    except (OSError, DecodeError, HistoryError) as error:
        complaints.append(f"the copy of {site} at the root cannot be read: {error}")
        copy = CopyAccount(rows=0, lost=0, doubled=0, is_same=False, behind=0)
    else:
        complaints += [f"{site}: {one}" for one in copy.complaints()]
    return {
        "complete_to_s": None if row is None else row.complete_to_ns / SECOND,
        "position": "" if row is None else row.position,
        **msgspec.to_builtins(copy),
    }
