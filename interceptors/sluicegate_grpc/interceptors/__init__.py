"""Policies inside a gRPC server or client of one's own."""
