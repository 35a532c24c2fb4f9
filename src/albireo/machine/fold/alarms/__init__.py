"""Alarms: conditions of items, and the cases that follow from them."""
