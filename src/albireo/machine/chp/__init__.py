"""A server of the Clustered Hashmap Protocol: what it tells its clients, and what it takes from them."""
