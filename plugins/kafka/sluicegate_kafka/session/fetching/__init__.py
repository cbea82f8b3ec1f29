"""Fetch: what a consumer may receive now."""
