"""Access: which role each message and question needs, who has which, and how that is changed on record."""
