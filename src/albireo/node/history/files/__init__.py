"""The Parquet files of the history and the manifest that lists them."""
