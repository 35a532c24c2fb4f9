"""Drill of a house: thirty Hexabus devices below a pair, on a bad network, while whoever leads is killed."""
