"""The brokers behind the gate, and its own questions to them."""
