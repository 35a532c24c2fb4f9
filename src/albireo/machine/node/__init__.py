"""Decisions of the actor CORE: admission, orders, answers, and the root machine that composes them."""
