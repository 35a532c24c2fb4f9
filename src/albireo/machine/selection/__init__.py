"""Which items are selected for an order, by whom, and how that ends (select before operate)."""
