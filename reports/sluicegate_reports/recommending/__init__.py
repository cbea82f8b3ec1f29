"""Recommends limits: `baseline` measures the usual load, `policy_file` writes limits as policies."""
