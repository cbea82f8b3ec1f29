"""The demo: a noisy producer and its neighbour (`first_minute`), or clients that exceed every policy.

What they observe is compared with the policy. `sluicegate.demo.scene` has the interface for broker rooms. It
does not import the gateway.
"""
