"""The page: operators at a browser. For users: docs/page.md. Decision: ADR-0273."""
