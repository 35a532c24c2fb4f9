"""The actor `history`: log in, Parquet out, questions answered. `create` is its factory."""

from albireo.node.history.actor import HistoryArguments, create

__all__ = ["HistoryArguments", "create"]
