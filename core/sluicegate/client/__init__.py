"""Policies in a client's own process: what the wrappers of all client libraries share."""
