"""Pure state machines: step(event, now) -> effects. No sockets, files, clock or randomness of their own."""
