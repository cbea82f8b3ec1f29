"""What gRPC calls mean for policies; interceptors and proxy decide alike by it."""
