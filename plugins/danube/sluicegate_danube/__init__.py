"""Sluicegate in front of Danube: not built yet."""
