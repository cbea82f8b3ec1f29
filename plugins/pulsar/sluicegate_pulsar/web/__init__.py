"""The web listener: the admin API with fixed delivery delays, and lookups with the gateway's addresses.

Everything else passes unchanged. It runs in the supervisor, off the relays' event loops.
"""
