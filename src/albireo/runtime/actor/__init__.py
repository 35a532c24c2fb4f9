"""Actors: loop, mailboxes, placement, supervision."""
