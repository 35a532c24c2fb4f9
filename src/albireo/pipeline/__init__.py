"""The data pipeline on Spark; a node runs without it."""
