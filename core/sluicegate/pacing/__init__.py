"""How often something happens: attempts, requests and log lines."""
