"""The command `albireo message`."""
