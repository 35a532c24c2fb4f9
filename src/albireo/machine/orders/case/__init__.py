"""Actions on cases: acknowledge, comment, shelve, and the like, as orders of their node."""
