"""The sending side: a producer, and whichever member of a pair it speaks to."""
