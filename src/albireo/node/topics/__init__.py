"""The actor `topics`: log in, messages to consumers out, cursors back."""
