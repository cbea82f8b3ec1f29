"""Leases of shared limits: what one process holds of them, and what it does while their store is away."""
