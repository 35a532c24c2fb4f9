"""The doctor at devices that are wrong in one way each: it reads a row of the table and tells them apart."""

from pathlib import Path

import pytest

from albireo.cli.site.device_look import looked_at
from albireo.cli.topology_file import read_topology
from albireo.field.modbus.wire import TAKEN
from albireo.plant.unruly.device import Manner, UnitAsked, UnrulyDevice, UnrulyLine, frame
from albireo.plant.unruly.manners import as_other_unit, honest, lacks, late, noise, refuses, silent
from tests.parts.steady import run_steadily

pytestmark = pytest.mark.slow

TOPOLOGY = """cluster = "6f1c2f7e-7e6a-4a0e-9d39-3f0d5d0f3a11"
[[node]]
id = "root"
  [[node.adapter]]
  name = "p1"
  kind = "modbus"
  url = "tcp://127.0.0.1:{port}"
  items = "p1.csv"
  timeout_ms = 200
"""
TABLE = "name,kind,address,device_id\nflow,holding,7,1\nlevel,holding,8,1\npump,holding,9,2\n"


async def hang_up(asked: UnitAsked, line: UnrulyLine) -> None:
    line.close()


async def too_long_by_its_header(asked: UnitAsked, line: UnrulyLine) -> None:
    whole = bytearray(frame(asked, line.device.answer(asked)))
    whole[5] += 1
    line.send(bytes(whole))


@pytest.mark.parametrize(
    ("manner", "status", "said"),
    [
        (honest, "good", "answers: flow = 263, pump = 521"),
        (lacks(7), "warning", "answers: flow is BadConfigurationError, pump = 521"),
        (refuses(11), "warning", "answers: flow is BadNoCommunication, pump = 521"),
        (as_other_unit, "warning", "it answers as unit 2, and unit 1 was asked"),
        (too_long_by_its_header, "warning", "part of an answer: 5 bytes, and its header says 6"),
        (late(0.3), "warning", "its answers come later than timeout_ms, or with the numbers of earlier requests"),
        (noise(b"SSH-2.0-OpenSSH_9.2\r\n"), "warning", "not Modbus: it says b'SSH-2.0-OpenSSH_9.2\\r\\n'"),
        (hang_up, "warning", TAKEN),
        (silent, "warning", "no answer"),
    ],
)
def test_a_device_is_told_as_what_it_is(manner: Manner, status: str, said: str, tmp_path: Path) -> None:
    async def story() -> None:
        device = UnrulyDevice({1: manner, 2: honest if "pump" in said else manner})
        await device.start()
        (tmp_path / "topology.toml").write_text(TOPOLOGY.format(port=device.port))
        (tmp_path / "p1.csv").write_text(TABLE)
        loaded = read_topology(tmp_path / "topology.toml")
        url = loaded.topology.node[0].adapter[0].url
        finding = await looked_at("p1", url, loaded.arguments["root"][0])
        await device.stop()
        assert (finding.status, finding.value.removeprefix(url).lstrip(": ")) == (status, said)
        assert bool(finding.remedy) is (status != "good")
        assert len({(one.unit, one.address) for one in device.asked}) <= 2, "a row of each unit, and no more"

    run_steadily(story())
