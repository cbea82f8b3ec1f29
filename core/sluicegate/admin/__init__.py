"""The admin API over HTTP, and the note by which commands find the running gateway."""

EFFECTIVE_POLICIES = "/api/v1/policies/effective"
"""Path of the effective policies of one topic."""
POLICIES = "/api/v1/policies"
"""Path of all policies, and of changes."""
