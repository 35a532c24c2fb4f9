"""Machines of topics: the actor `topics`, which serves messages by subscription, and the client that fetches them."""
