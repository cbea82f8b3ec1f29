"""The one method of Danube's admin API that Sluicegate calls: it lists the subscriptions of a topic."""
