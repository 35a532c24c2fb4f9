"""Albireo: monitoring and control that can be trusted. Start reading at docs/ARCHITECTURE.md."""

__version__ = "0.2.0.dev0"
