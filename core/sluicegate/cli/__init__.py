"""The command line: one file for each command, imported when it is used."""

import os

# Before anything imports gRPC: its handlers for fork() end one in twenty of the workers that a supervisor
# starts while its policy store speaks to etcd (segmentation fault, grpcio 1.85 with uvloop). A gateway forks
# only to execute another program, so it needs none of them.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

from sluicegate.cli.group import main

__all__ = ["main"]
