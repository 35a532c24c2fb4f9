"""Sessions: who is present, from where, since when; what begins and ends that."""
