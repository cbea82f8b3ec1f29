"""The requests of one connection until they have their responses."""
