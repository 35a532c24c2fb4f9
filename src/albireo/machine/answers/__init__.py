"""Answers to questions, here or for a node below."""
