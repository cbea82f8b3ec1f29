"""Pure policy: no IO, no clock, no broker. Every call that depends on time takes `now_ns` (monotonic)."""
