"""A gate as a process."""
