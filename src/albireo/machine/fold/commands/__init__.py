"""Commands and the selections that they use."""
