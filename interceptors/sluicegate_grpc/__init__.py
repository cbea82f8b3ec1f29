"""gRPC: interceptors for servers and clients, and the HTTP/2 frame splice of the proxy."""
