"""The demo: real clients exceed every policy, and their observations are compared with the policy.

`sluicegate.demo.scene` has the interface for broker rooms. It does not import the gateway.
"""
