"""Items, their current values, and which of them are forced."""
