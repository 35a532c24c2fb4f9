"""Commands one after the other in one process, as `FarDesk.run` gives them: a line of JSON for each, and one back.

A process for each command would take the processor from the nodes that are asked.
"""

import json
import sys

from click.testing import CliRunner

from albireo.cli import cli


def main() -> None:
    for line in sys.stdin:
        asked = json.loads(line)
        done = CliRunner().invoke(cli, asked["arguments"], env=asked["environment"], catch_exceptions=False)
        print(json.dumps([done.exit_code, done.stdout, done.stderr]), flush=True)


if __name__ == "__main__":
    main()
