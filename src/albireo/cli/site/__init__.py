"""Commands about a site: its files, its keys, the machine under it."""
