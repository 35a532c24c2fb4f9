"""Receiving: programs at the owner that share the work of its inboxes."""
