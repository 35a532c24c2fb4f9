"""Folds of topics: which there are, who is to get their messages, and how far each is. Of puts they take the head."""
