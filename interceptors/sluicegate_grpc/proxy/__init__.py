"""Gateways in front of gRPC brokers."""
