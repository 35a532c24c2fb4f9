"""The physics of the tunnel, as pure steps."""
