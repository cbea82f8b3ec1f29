"""The admin API over HTTP, and the note by which commands find the running gateway."""

EFFECTIVE_POLICIES = "/api/v1/policies/effective"
"""Path of the effective policies of one topic."""
POLICIES_IN_FORCE = "/api/v1/policies/in-force"
"""Path of all policies of one broker, for processes that apply them themselves."""
POLICIES = "/api/v1/policies"
"""Path of all policies, and of changes."""
