"""Pictures that people drew: what their files may hold, and how they are read."""
