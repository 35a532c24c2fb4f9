"""Diagnostics: items of CORE's own, about itself (`own`) and about the adapters of its node (`adapters`)."""
