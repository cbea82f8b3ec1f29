"""Fetch: what a consumer may be given now."""
