"""`albireo hexabus`: machines of a house, and a look at the network of its devices."""
