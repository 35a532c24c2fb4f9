"""Who speaks if nobody says so: the login name."""

import getpass
import os


def login_name() -> str:
    """The login name; `uid-N` for a user id that has none, as containers with arbitrary ids do."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # Python 3.13 raises the second.
        return f"uid-{os.getuid()}"
