"""Messages of programs, and files in parts of them, as a client sends and receives them."""
