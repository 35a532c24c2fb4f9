"""Outputs that a PLC or a gate can refuse: permits, mailboxes, the guard."""
