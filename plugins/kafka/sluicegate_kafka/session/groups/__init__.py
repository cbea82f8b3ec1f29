"""Consumer groups: admission of members and of new subscriptions."""
