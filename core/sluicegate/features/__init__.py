"""Features that follow the state of a broker: storage quotas, adaptive throttling, pressure."""
