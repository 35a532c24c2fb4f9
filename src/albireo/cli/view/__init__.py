"""The live view on a terminal."""
