"""The command line: one file for each command, imported when it is used."""

import os

# Set before anything imports gRPC. Its fork handlers crash one in twenty of the workers that a supervisor
# starts while its policy store talks to etcd (segmentation fault, grpcio 1.85 with uvloop). A gateway forks
# only to execute another program, so it does not need these handlers.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

from sluicegate.cli.group import main

__all__ = ["main"]
