"""`albireo topology new`: from a device that answers to files that a node can run."""

import asyncio
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from albireo.cli.output import ExitCode, Failure, progress
from albireo.codec.topology.text import FIRST_COLUMNS, FirstAdapter, table_text, topology_text
from albireo.field.contract import ConfigurationError, DeviceLost
from albireo.field.modbus.survey import Survey, SurveyLimits, Surveyor
from albireo.field.modbus.survey_reader import SurveyReader
from albireo.field.modbus.wire import Address, Wire, parse_url
from albireo.model.instant import SECOND

DEVICE_IDS: Final = (1, 255, 0)
"""Tried in this order when none is named: the usual one, then what gateways and devices without units answer to."""
TIMEOUT_S: Final = 1.0
PAUSE_S: Final = 0.005
BETWEEN_LOOKS_S: Final = 0.7
ADAPTER: Final = "plc"


class Surveyed(msgspec.Struct, frozen=True):
    """A device and what it holds."""

    address: Address
    device_id: int
    survey: Survey


def survey_device(text: str, device_id: int | None, limits: SurveyLimits, *, keeps_zeros: bool) -> Surveyed:
    """Look at the device at HOST:PORT; a progress line tells what is being looked at.

    Raises:
        Failure: no such address, nobody there, or no unit that has anything to read (69).
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
    """Survey of the first unit that has anything to read.

    Raises:
        DeviceLost: nobody is there.
        Failure: units answer or not, and none has anything to read.
    """
    wire = Wire(address, int(TIMEOUT_S * SECOND))
    await wire.connect()
    tried: list[str] = []
    try:
        for device_id in candidates:
            reader = SurveyReader(wire, device_id, TIMEOUT_S, PAUSE_S)
            if trouble := await reader.trouble():
                tried.append(f"unit {device_id}: {trouble}")
                continue
            survey = await _survey_of(reader, f"{address.host}:{address.port}, unit {device_id}", limits, keeps_zeros)
            if survey.guesses:
                return Surveyed(address, device_id, survey)
            zeros = f" but {survey.skipped} zeros (--zeros keeps them)" if survey.skipped else ""
            tried.append(f"unit {device_id} answers and has nothing up to address {limits.address_max}{zeros}")
    finally:
        wire.close()
    remedy = "name the unit with --device-id, as the manual or the gateway's settings have it, or raise --address-max"
    where = f"{address.host}:{address.port}"
    raise Failure(f"nothing to read at {where}: {'; '.join(tried)}", remedy, ExitCode.UNREACHABLE)


async def _survey_of(reader: SurveyReader, what: str, limits: SurveyLimits, keeps_zeros: bool) -> Survey:
    with progress(f"Surveying {what}:", None) as advance:
        surveyor = Surveyor(reader, limits, lambda text: advance(1, text))

        async def pause() -> None:
            advance(0, "waiting for values to change")
            await asyncio.sleep(BETWEEN_LOOKS_S)

        return await surveyor.look(pause, keeps_zeros=keeps_zeros)


def modbus_adapter(found: Surveyed) -> tuple[FirstAdapter, str]:
    """The adapter of a device, and its item table."""
    rows = rows_of(found.survey)
    columns = (*FIRST_COLUMNS, *(["length"] if any("length" in row for row in rows) else []))
    url = f"tcp://{_host(found.address.host)}:{found.address.port}"
    keys: dict[str, str | int] = {"url": url, "device_id": found.device_id}
    return FirstAdapter(name=ADAPTER, kind="modbus", keys=keys, items=f"{ADAPTER}.csv"), table_text(rows, columns)


def write_files(directory: Path, found: Sequence[tuple[FirstAdapter, str]], *, overwrites: bool) -> list[Path]:
    """Write `topology.toml` and the item tables; the files written.

    Args:
        found: adapters with their tables.

    Raises:
        Failure: they are there already, or cannot be written.
    """
    texts = {adapter.items: table for adapter, table in found}
    texts["topology.toml"] = topology_text(str(uuid.uuid4()), "root", [adapter for adapter, _ in found])
    there = [name for name in texts if (directory / name).exists()]
    if there and not overwrites:
        raise Failure(
            f"{', '.join(there)} in {directory} would be overwritten",
            "name another directory with --out, or say --force",
        )
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (directory / name).write_text(text, encoding="utf-8")
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
            "description": f"read {guess.seen}"
            if guess.kind.is_bits
            else f"{'doubtful ' if guess.is_doubtful else ''}guess: {guess.type}, read {guess.seen}",
            **({"length": str(guess.length)} if guess.length else {}),
        }
        for guess in survey.guesses
    ]


def _host(host: str) -> str:
    return f"[{host}]" if ":" in host else host
