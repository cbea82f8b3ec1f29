"""Sluicegate in front of Danube."""
