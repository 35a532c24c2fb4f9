"""CORE as a member of a pair: what the member machine says is carried out here."""
