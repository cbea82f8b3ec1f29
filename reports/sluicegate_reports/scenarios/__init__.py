"""Scenarios that come with the product: `sluicegate compare scenarios` lists them."""
