"""The requests of one connection until they are answered."""
