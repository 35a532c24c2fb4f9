"""CORE: the actor around log, folds and feeds, its housekeeping, and what it asks of its membership."""
