"""Sockets, TLS and HTTP of a gateway; knows no policy, no plugin and no broker by name."""
