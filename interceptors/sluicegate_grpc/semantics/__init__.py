"""What gRPC calls mean for policies, for interceptors and proxy alike."""
