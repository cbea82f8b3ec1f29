"""What is published about the gateway: Prometheus text and health, made in the supervisor."""
