"""People: their roles, their sessions, and the audit of what they did."""
