"""CORE: the actor around log, folds and feeds; what it keeps house of."""
