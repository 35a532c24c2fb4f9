"""Tells people of alarms by mail, webhook and script. For users: docs/notify.md. Decision: ADR-0275."""
