"""Budgets in a Redis or Valkey: tokens and places by scripts that run in the server."""
