"""A metadata store in etcd 3.4 or later, through etcd's gRPC API."""
