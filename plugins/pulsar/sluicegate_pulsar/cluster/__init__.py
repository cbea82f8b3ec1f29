"""The brokers behind the gateway, and the gateway's own requests to them."""
