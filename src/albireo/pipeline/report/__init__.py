"""The report: one page that loads nothing."""
