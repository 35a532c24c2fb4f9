"""Commands about one node: run and stop it, ask it, write to it, read what it stored."""
