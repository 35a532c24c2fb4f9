"""Messages as resources: named, pulled by their owner, done at most once, proven at both ends (docs/messages.md)."""
