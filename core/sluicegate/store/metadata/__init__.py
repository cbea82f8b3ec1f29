"""Shared metadata in keys: who is alive, who owns what. In memory, in SQLite (one host) or in etcd."""
