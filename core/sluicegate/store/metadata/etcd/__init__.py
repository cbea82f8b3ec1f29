"""The metadata store in etcd 3.4 or later, over the few calls of its own gRPC API that it needs."""
