"""The door for clients of the first publish/subscribe. For users: docs/topics.md. Decision: ADR-0248."""
