"""Topology files and item tables <-> `model.topology`, with a place and a remedy for each mistake."""
