"""`albireo topology new`: from a device that answers to files that a node can run."""

import asyncio
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from albireo.cli.output import ExitCode, Failure, progress
from albireo.codec.topology.text import FirstAdapter, table_text, topology_text
from albireo.field.contract import ConfigurationError, DeviceLost
from albireo.field.modbus.items import TableKind
from albireo.field.modbus.survey import Survey, SurveyLimits, Surveyor, device_reader
from albireo.field.modbus.wire import Address, DataReply, ExceptionReply, Wire, parse_url

DEVICE_IDS: Final = (1, 255, 0)
"""Tried in this order when none is named: the usual one, then what gateways and devices without units answer to."""
TIMEOUT_NS: Final = 1_000_000_000
PAUSE_S: Final = 0.005
BETWEEN_LOOKS_S: Final = 1.0
ADAPTER: Final = "plc"


class Surveyed(msgspec.Struct, frozen=True):
    """A device and what it holds."""

    address: Address
    device_id: int
    survey: Survey


def survey_device(text: str, device_id: int | None, limits: SurveyLimits, *, keeps_zeros: bool) -> Surveyed:
    """Look at the device at HOST:PORT; a progress line tells what is being looked at.

    Raises:
        Failure: no such address, nobody there (69), or nothing readable.
    """
    try:
        address = parse_url(text if "://" in text else f"tcp://{text}")
    except ConfigurationError as error:
        raise Failure(str(error), "name the device as HOST:PORT", ExitCode.USAGE) from error
    candidates = DEVICE_IDS if device_id is None else (device_id,)
    try:
        return asyncio.run(_survey(address, candidates, limits, keeps_zeros=keeps_zeros))
    except DeviceLost as error:
        where = f"{address.host}:{address.port}"
        remedy = f"is the device on, and Modbus TCP enabled? Try: nc -vz {address.host} {address.port}"
        raise Failure(f"the device at {where}: {error.reason}", remedy, ExitCode.UNREACHABLE) from error


async def _survey(address: Address, candidates: Sequence[int], limits: SurveyLimits, *, keeps_zeros: bool) -> Surveyed:
    wire = Wire(address, TIMEOUT_NS)
    await wire.connect()
    try:
        device_id = await _first_that_answers(wire, candidates)
        with progress(f"Surveying {address.host}:{address.port}, unit {device_id}:", None) as advance:
            reader = device_reader(wire, device_id, PAUSE_S)
            surveyor = Surveyor(reader, limits, lambda text: advance(1, text))

            async def pause() -> None:
                advance(0, "waiting for values to change")
                await asyncio.sleep(BETWEEN_LOOKS_S)

            survey = await surveyor.look(pause, keeps_zeros=keeps_zeros)
    finally:
        wire.close()
    return Surveyed(address, device_id, survey)


async def _first_that_answers(wire: Wire, candidates: Sequence[int]) -> int:
    """The first unit that says anything for itself, a refusal included (a gateway's does not count).

    Raises:
        DeviceLost: none does.
    """
    for device_id in candidates:
        for kind in TableKind:
            answer = await wire.read(kind, device_id, 0, 1)
            if isinstance(answer, DataReply) or (isinstance(answer, ExceptionReply) and answer.code < _GATEWAY):
                return device_id
            if not isinstance(answer, ExceptionReply):
                break
    tried = ", ".join(str(one) for one in candidates)
    raise DeviceLost(f"connected, but no unit answers (tried {tried}); name it with --device-id")


_GATEWAY: Final = 10
"""Exceptions from here on are a gateway's: nobody behind it."""


def write_files(directory: Path, found: Surveyed | None, *, overwrites: bool) -> list[Path]:
    """Write `topology.toml` and the item table; the files written.

    Raises:
        Failure: they are there already, or cannot be written.
    """
    texts: dict[str, str] = {}
    adapters: list[FirstAdapter] = []
    if found is not None:
        url = f"tcp://{_host(found.address.host)}:{found.address.port}"
        table = f"{ADAPTER}.csv"
        adapters = [FirstAdapter(name=ADAPTER, kind="modbus", url=url, device_id=found.device_id, items=table)]
        texts[table] = table_text(rows_of(found.survey))
    texts["topology.toml"] = topology_text(str(uuid.uuid4()), "root", adapters)
    there = [name for name in texts if (directory / name).exists()]
    if there and not overwrites:
        raise Failure(
            f"{', '.join(there)} in {directory} would be overwritten",
            "name another directory with --out, or say --force",
        )
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (directory / name).write_text(text)
    except OSError as error:
        raise Failure(f"cannot write into {directory}: {error.strerror}", "name another with --out") from error
    return [directory / name for name in sorted(texts, reverse=True)]


def rows_of(survey: Survey) -> list[dict[str, str]]:
    """Rows of the item table; names tell the place, descriptions that the type is a guess."""
    return [
        {
            "name": f"{guess.kind.value}_{guess.address}",
            "kind": guess.kind.value,
            "address": str(guess.address),
            "type": guess.type,
            "word_order": guess.word_order if guess.word_order != "big" else "",
            "description": f"read {guess.seen}" if guess.kind.is_bits else f"guess: {guess.type}, read {guess.seen}",
        }
        for guess in survey.guesses
    ]


def _host(host: str) -> str:
    return f"[{host}]" if ":" in host else host
