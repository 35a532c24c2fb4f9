"""The face for programs that speak the Clustered Hashmap Protocol. For users: docs/chp.md."""
