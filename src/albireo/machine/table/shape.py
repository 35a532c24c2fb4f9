"""Shape of a table: the declaration by which everybody takes, keeps and tells its rows."""

from collections.abc import Callable
from typing import Annotated, Final, Generic, TypeVar

import msgspec
from msgspec import Meta

from albireo.codec.errors import DecodeError
from albireo.model.bounded import ENTRIES_MAX

K = TypeVar("K", bound=int | str)
R = TypeVar("R", bound=msgspec.Struct)

GONE_MAX: Final = 1_000
"""Rows that are gone of which viewers are still told, unless a shape says otherwise."""


class TableShape(Generic[K, R]):
    """Declaration of a table. Its rows are structs whose every field has a bound; their keys are numbers, or names."""

    def __init__(
        self,
        name: str,
        row: type[R],
        key: Callable[[R], K],
        rows_max: int,
        *,
        gone_max: int = GONE_MAX,
        is_over: Callable[[R], bool] | None = None,
        is_shown_above: bool = True,
        is_kept_above: bool = False,
        is_told: bool = True,
    ) -> None:
        """
        Args:
            name: of the table in snapshots and in the state that is told; never another table's.
            rows_max: most rows that are taken of another node. Whoever appends records bounds a node's own.
            gone_max: rows that are gone of which viewers are told; who lacks older ones takes the whole state.
            is_over: whether a row is the last word about its key: it is told once, and then gone; None: none is.
            is_shown_above: nodes above mirror it.
            is_kept_above: the snapshot of a node above keeps it, to be shown as stale after a start.
            is_told: the state tells it; False: its rows stay with the members.
        """
        self.is_told = is_told
        self.name = name
        self.row = row
        self.key = key
        self.rows_max = rows_max
        self.gone_max = gone_max
        self.is_over = is_over
        self.is_shown_above = is_shown_above
        self.is_kept_above = is_kept_above
        self._decoder = msgspec.msgpack.Decoder(Annotated[tuple[row, ...], Meta(max_length=ENTRIES_MAX)])  # type: ignore[valid-type]  # Made as the table is declared.

    def decode(self, rows: bytes | msgspec.Raw) -> tuple[R, ...]:
        """The rows of a message or a snapshot.

        Raises:
            DecodeError: they are none, or a field is out of its bounds.
        """
        try:
            found: tuple[R, ...] = self._decoder.decode(rows)
        # NB: text that is not UTF-8 is a UnicodeDecodeError, which msgspec does not wrap.
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise DecodeError(0, f"{self.name}: {error}") from error
        return found
