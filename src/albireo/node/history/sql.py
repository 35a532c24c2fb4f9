"""SQL over the stored history with DuckDB: for ad-hoc questions, and the oracle of the tests. Optional (ADR-0061).

Views: samples, partials, gaps, events, items, with the columns of codec.history plus `node` and `day` of the file's
folder; `readings`: samples with name, type, unit and description of their time. Only sealed rows are seen.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import pyarrow as pa

from albireo.codec.history import SCHEMAS, FileKind
from albireo.model.refusal import RefusalCode
from albireo.node.history.errors import HistoryDamaged, QueryRefused
from albireo.node.history.files.intact import check_whole
from albireo.node.history.files.store import FOLDER, read_manifest

ROWS_MAX: Final = 1_000_000
_READINGS: Final = """
CREATE VIEW readings AS SELECT s.*, i.name, i.value_type, i.unit, i.description FROM samples AS s ASOF LEFT JOIN (
    SELECT * REPLACE (if(row_number() OVER (PARTITION BY item_id ORDER BY sequence) = 1, 0, sequence) AS sequence)
    FROM items
) AS i ON s.item_id = i.item_id AND s.sequence > i.sequence
"""
"""The first declaration of an item counts before it, too."""


class Database:
    """A connection with the views; a context manager."""

    def __init__(self, root: Path) -> None:
        try:
            import duckdb
        except ImportError as error:
            raise QueryRefused("SQL needs duckdb", "pip install 'albireo[sql]'") from error
        self._error: type[Exception] = duckdb.Error
        manifest = read_manifest(root)
        # Neither names of Python nor the zone of the machine mean anything in a query.
        self._connection = duckdb.connect(config={"python_enable_replacements": False})
        self._connection.execute("SET TimeZone = 'UTC'")
        self._root = root
        self._folder = os.open(root.parent, os.O_RDONLY | os.O_DIRECTORY)
        self._own = f"/proc/self/fd/{self._folder}/{root.name}"
        """The history's folder by the descriptor of the one around it, which is always there: DuckDB would take its
        path for a pattern (`x*`), or for partitions (`a=b`)."""
        self._unchecked = {kind: manifest.of_kind(kind) for kind in FileKind}
        """Files whose checksum was not looked at yet; DuckDB looks at none."""
        try:
            for kind in FileKind:
                self._connection.execute(self._view(kind, [entry.path for entry in manifest.of_kind(kind)]))
            self._connection.execute(_READINGS)
        except self._error as error:
            self._check(" ".join(FileKind))
            raise self._refused(error) from error

    def _view(self, kind: FileKind, files: Sequence[str]) -> str:
        columns = ", ".join(SCHEMAS[kind].names)
        is_whole = kind is FileKind.ITEMS
        if not files:  # An empty table of the right types stands for it.
            self._connection.register(f"no_{kind}", SCHEMAS[kind].empty_table())
            more = "" if is_whole else ", '' AS node, DATE '1970-01-01' AS day"
            return f"CREATE VIEW {kind} AS SELECT {columns}{more} FROM no_{kind}"
        more = "" if is_whole else ", replace(node, '~', '/') AS node, day::DATE AS day"
        paths = [f"{self._own}/{path}" for path in files]
        # Left to itself DuckDB takes a node called `epoch` for a day.
        folders = "hive_partitioning = true, hive_types_autocast = false"
        return f"CREATE VIEW {kind} AS SELECT {columns}{more} FROM read_parquet({paths!r}, {folders})"

    def _refused(self, error: Exception) -> QueryRefused:
        return QueryRefused(str(error).replace(self._own, str(self._root)))

    def _check(self, sql: str) -> None:
        """Compare the files of each kind that the query may read with their checksums, once."""
        asked = sql.lower() + (_READINGS if "readings" in sql.lower() else "")
        for kind in [one for one in self._unchecked if one in asked]:
            for entry in self._unchecked.pop(kind):
                try:
                    check_whole(self._root / entry.path, entry)
                except OSError as error:
                    raise HistoryDamaged(entry.path, error.strerror or "can't be read") from error

    def rows(self, sql: str) -> pa.Table:
        """The answer. Of several columns of one name the later ones have a number behind it.

        Raises:
            QueryRefused: DuckDB refuses it, in its own words, or it has more than ROWS_MAX rows.
            HistoryDamaged: a file is not as it was written.
        """
        self._check(sql)
        try:
            answer = self._connection.sql(sql)
            table = pa.table({}) if answer is None else answer.limit(ROWS_MAX + 1).to_arrow_table()
        except self._error as error:
            raise self._refused(error) from error
        if len(table) > ROWS_MAX:
            raise QueryRefused(f"more than {ROWS_MAX} rows", "add a LIMIT", RefusalCode.TOO_MUCH)
        told = [one.with_type(pa.string()) if pa.types.is_null(one.type) else one for one in table.schema]
        return table.cast(pa.schema(told))  # No reader takes a column of which nobody knows the type.

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()
        os.close(self._folder)


def connect(data: Path) -> Database:
    """Database over the history below a data directory.

    Raises:
        QueryRefused: duckdb is not installed.
        HistoryDamaged: there is no usable manifest.
    """
    return Database(data / FOLDER)
