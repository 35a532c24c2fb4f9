"""A process of a user id that no list of users knows, and that has no home: so run containers with arbitrary ids."""

import os
import shutil
import subprocess
from typing import Final

import pytest

USER: Final = 54_321
AS_UNKNOWN: Final = ("unshare", f"--map-user={USER}", f"--map-group={USER}")
"""What is put before a command; it may do with files what the one who runs the test may."""
UNKNOWN: Final = {
    name: value
    for name, value in os.environ.items()
    if name not in {"USER", "LOGNAME", "LNAME", "USERNAME", "HOME", "XDG_CONFIG_HOME"}
}
"""Its variables."""
needs_namespaces: Final = pytest.mark.skipif(
    shutil.which("unshare") is None or subprocess.run([*AS_UNKNOWN, "true"], check=False).returncode != 0,
    reason="this machine gives no user namespaces",
)
