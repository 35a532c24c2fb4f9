"""The actors of a node. No PLC protocols."""
