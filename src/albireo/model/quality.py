"""Quality of a value: OPC UA StatusCodes, as u32 so that whole columns of them are numpy arrays.

Spec: OPC UA Part 4, 7.39 (StatusCode: severity in bits 30..31, sub-code in bits 16..27, info type in bits 10..11);
OPC UA Part 8, 6.3 (data access codes); OPC UA Part 11, 6.3.1 (historian bits).
"""

from typing import Final, NewType

import numpy as np
from numpy.typing import NDArray

Quality = NewType("Quality", int)

GOOD: Final = Quality(0x0000_0000)
GOOD_LOCAL_OVERRIDE: Final = Quality(0x0096_0000)
UNCERTAIN: Final = Quality(0x4000_0000)
UNCERTAIN_NO_COMMUNICATION_LAST_USABLE: Final = Quality(0x408F_0000)
UNCERTAIN_LAST_USABLE_VALUE: Final = Quality(0x4090_0000)
UNCERTAIN_SENSOR_NOT_ACCURATE: Final = Quality(0x4093_0000)
UNCERTAIN_ENGINEERING_UNITS_EXCEEDED: Final = Quality(0x4094_0000)
UNCERTAIN_SUB_NORMAL: Final = Quality(0x4095_0000)
UNCERTAIN_DATA_SUB_NORMAL: Final = Quality(0x40A4_0000)
BAD: Final = Quality(0x8000_0000)
BAD_TIMEOUT: Final = Quality(0x800A_0000)
BAD_NO_COMMUNICATION: Final = Quality(0x8031_0000)
BAD_WAITING_FOR_INITIAL_DATA: Final = Quality(0x8032_0000)
BAD_OUT_OF_RANGE: Final = Quality(0x803C_0000)
BAD_CONFIGURATION_ERROR: Final = Quality(0x8089_0000)
BAD_NOT_CONNECTED: Final = Quality(0x808A_0000)
BAD_DEVICE_FAILURE: Final = Quality(0x808B_0000)
BAD_SENSOR_FAILURE: Final = Quality(0x808C_0000)
BAD_OUT_OF_SERVICE: Final = Quality(0x808D_0000)
BAD_NO_DATA: Final = Quality(0x809B_0000)
BAD_DATA_LOST: Final = Quality(0x809D_0000)
BAD_AGGREGATE_INVALID_INPUTS: Final = Quality(0x80D6_0000)

# Historian bits (Part 11, 6.3.1): info type DataValue plus what kind of value this is.
CALCULATED: Final = 0x0401
INTERPOLATED: Final = 0x0402
PARTIAL: Final = 0x0004

SEVERITY_SHIFT: Final = 30
GOOD_CLASS: Final = 0
UNCERTAIN_CLASS: Final = 1
BAD_CLASS: Final = 2

_CODE: Final = np.uint32(0xFFFF_0000)
_NOT_FROM_DEVICE: Final = np.array(
    [BAD_NO_COMMUNICATION, BAD_NOT_CONNECTED, BAD_TIMEOUT, BAD_WAITING_FOR_INITIAL_DATA], np.uint32
)

_NAMES: Final[dict[int, str]] = {
    int(value): name.title().replace("_", "")
    for name, value in list(globals().items())
    if name.isupper() and isinstance(value, int) and (value >= 0x10000 or name == "GOOD")
}


def severity(quality: NDArray[np.uint32]) -> NDArray[np.uint8]:
    """Class of each quality: 0 good, 1 uncertain, 2 bad (3 is reserved by the standard and counts as bad)."""
    classes: NDArray[np.uint8] = np.minimum(quality >> SEVERITY_SHIFT, BAD_CLASS).astype(np.uint8)
    return classes


def is_good(quality: int) -> bool:
    return quality >> SEVERITY_SHIFT == GOOD_CLASS


def is_bad(quality: int) -> bool:
    return quality >> SEVERITY_SHIFT >= BAD_CLASS


def name(quality: int) -> str:
    """The standard's name, such as `BadNoCommunication`; a code without one in hexadecimal under its class."""
    known = _NAMES.get(quality & 0xFFFF_0000)
    if known is not None:
        return known
    label = ("Good", "Uncertain", "Bad", "Bad")[quality >> SEVERITY_SHIFT & 3]
    return f"{label}(0x{quality:08X})"


def names() -> dict[int, str]:
    """Names of all known qualities, by code."""
    return dict(_NAMES)


def is_from_node(quality: NDArray[np.uint32]) -> NDArray[np.bool_]:
    """Mark samples that the node stamped because the device did not answer."""
    return np.isin(quality & _CODE, _NOT_FROM_DEVICE)
