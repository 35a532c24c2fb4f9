"""SQL over the stored history with DuckDB: for ad-hoc questions, and the oracle of the tests. Optional (ADR-0061).

Views: samples, partials, gaps, events, items, with the columns of codec.history plus `node` and `day` of the file's
folder. Only sealed rows are seen.
"""

from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from albireo.codec.history import SCHEMAS, FileKind
from albireo.model.refusal import RefusalCode
from albireo.node.history.errors import HistoryDamaged, QueryRefused
from albireo.node.history.files.intact import check_whole
from albireo.node.history.files.store import FOLDER, read_manifest

ROWS_MAX: Final = 1_000_000


class Database:
    """A connection with the views; a context manager."""

    def __init__(self, root: Path) -> None:
        try:
            import duckdb
        except ImportError as error:
            raise QueryRefused("SQL needs duckdb", "pip install 'albireo[sql]'") from error
        self._errors = (duckdb.Error,)
        manifest = read_manifest(root)
        self._connection = duckdb.connect()
        self._root = root
        self._unchecked = {kind: manifest.of_kind(kind) for kind in FileKind}
        """Files whose checksum was not looked at yet; DuckDB looks at none."""
        for kind in FileKind:
            paths = [str(root / entry.path) for entry in manifest.of_kind(kind)]
            columns = ", ".join(SCHEMAS[kind].names)
            source = f"read_parquet({paths!r}, hive_partitioning = true)" if paths else self._nothing(kind)
            more = "" if kind is FileKind.ITEMS or not paths else ", replace(node, '~', '/') AS node, day"
            self._connection.execute(f"CREATE VIEW {kind} AS SELECT {columns}{more} FROM {source}")

    def _check(self, sql: str) -> None:
        """Compare the files of each kind that the query may read with their checksums, once."""
        for kind in [one for one in self._unchecked if one in sql.lower()]:
            for entry in self._unchecked.pop(kind):
                check_whole(self._root / entry.path, entry)

    def _nothing(self, kind: FileKind) -> str:
        """Register an empty table of the right types; returns its name."""
        self._connection.register(f"no_{kind}", SCHEMAS[kind].empty_table())
        return f"no_{kind}"

    def rows(self, sql: str) -> dict[str, list[Any]]:
        """The columns of an answer by name.

        Raises:
            QueryRefused: DuckDB refuses it, or it has more than ROWS_MAX rows.
            HistoryDamaged: a file can't be read.
        """
        self._check(sql)
        try:
            answer = self._connection.execute(sql)
            names = [column[0] for column in answer.description or ()]
            rows = answer.fetchmany(ROWS_MAX + 1)
        except self._errors as error:
            if type(error).__name__ in ("IOException", "InvalidInputException"):
                raise HistoryDamaged("history", str(error)) from error
            raise QueryRefused(str(error)) from error
        if len(rows) > ROWS_MAX:
            raise QueryRefused(f"more than {ROWS_MAX} rows", "add a LIMIT", RefusalCode.TOO_MUCH)
        return {name: [row[index] for row in rows] for index, name in enumerate(names)}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()


def connect(data: Path) -> Database:
    """Database over the history below a data directory.

    Raises:
        QueryRefused: duckdb is not installed.
        HistoryDamaged: there is no usable manifest.
    """
    return Database(data / FOLDER)
