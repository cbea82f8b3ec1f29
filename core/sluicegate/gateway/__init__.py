"""The only IO of the product: sockets, TLS, timers, processes. It knows no broker by name."""
