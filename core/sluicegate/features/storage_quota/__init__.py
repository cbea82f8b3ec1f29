"""Storage quotas: publishing slows down and pauses as the volumes of a broker's nodes fill up.

`StorageQuota` works with any source of usage; `sources` has those that do not depend on a kind of broker.
"""
