"""`albireo demo --plant house`: thirty Hexabus devices below a pair, a bad network, and the end of whoever leads.

Members and devices have network namespaces of their own, which takes root, or a kernel that lets everybody have their
own root (`unshare`): then the demo runs itself in there.
"""

import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import msgspec

from albireo.cli.output import ExitCode, Failure, say
from albireo.drill.fault.network import NetworkGround
from albireo.drill.ground import DrillError
from albireo.drill.house.house import EVENTS_MIN, HouseAccount, HouseDrill

SECONDS: Final = 60.0
_INSIDE: Final = "ALBIREO_DEMO_NAMESPACE"
_SCRIPT: Final = 'mount -t tmpfs none /run && ip link set lo up && exec "$@"'


def run_house(seconds: float | None, seed: int, data: Path | None) -> tuple[dict[str, Any], list[str]]:
    """The whole demo: the answer with the keys of `--json`, and what did not hold.

    Raises:
        Failure: it could not be done here.
    """
    if os.geteuid() != 0 and _INSIDE not in os.environ:
        _go_inside()
    if objection := NetworkGround.objection():
        raise Failure(
            f"a house needs network namespaces: {objection}", "run it as root, with iproute2 and iptables installed",
            ExitCode.BAD_CONFIGURATION,
        )  # fmt: skip
    directory = Path(tempfile.mkdtemp(prefix="albireo-house-")) if data is None else data.absolute()
    directory.mkdir(parents=True, exist_ok=True)
    if any(directory.iterdir()):
        raise Failure(f"{directory} is not empty", "name another --data, or none")
    try:
        account = HouseDrill(directory, say, seed=seed).run(seconds or SECONDS)
    except DrillError as error:
        raise Failure(str(error), f"see the logs in {directory}") from error
    if data is None:
        shutil.rmtree(directory)
    return msgspec.to_builtins(account), _complaints(account)


def _go_inside() -> None:
    """Begin this command anew in namespaces of its own, if that is allowed here; returns if it is not."""
    if shutil.which("unshare") is None:
        return
    inside = ["unshare", "--user", "--map-root-user", "--net", "--mount", "sh", "-c", _SCRIPT, "sh"]
    os.environ[_INSIDE] = "1"
    os.execvp(inside[0], [*inside, sys.executable, "-m", "albireo", *sys.argv[1:]])


def _complaints(account: HouseAccount) -> list[str]:
    """Everything that is not as it should be, one sentence each."""
    found = []
    if account.events_lost or account.events_doubled:
        found.append(f"{account.events_lost} acknowledged events are lost, {account.events_doubled} are there twice")
    if account.disagreements:
        found.append(f"{account.disagreements} devices are in another state than the master's")
    if account.events < EVENTS_MIN * account.seconds:
        found.append(f"only {account.events} events in {account.seconds:.0f} s")
    return found
