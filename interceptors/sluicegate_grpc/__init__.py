"""gRPC interceptors and the HTTP/2 frame-splice proxy: not built yet."""
