"""Adapter for a network of Hexabus devices: the node is their master. For users: docs/adapters/hexabus.md."""
