"""Limits from a baseline: `baseline` measures what is usual, `policy_file` writes it as policies."""
