"""The principal of a call, from the client's certificate."""

from pathlib import Path
from typing import Any

import grpc
from grpc import aio
from tests.grpc.interceptors.aio.serving import Behaviors
from tests.grpc.lab import MAP, Broker, P, create, engine, handlers
from tests.real.certificates import Authority, Identity

from sluicegate.testing import RecordingSink
from sluicegate_grpc.aio import PolicyServerInterceptor


def pem(identity: Identity) -> tuple[bytes, bytes]:
    return identity.key.read_bytes(), identity.certificate.read_bytes()


async def test_with_mutual_tls_the_principal_is_the_common_name(tmp_path: Path) -> None:
    authority, sink = Authority(tmp_path), RecordingSink()
    trusted = authority.certificate.read_bytes()
    with engine(sink) as made:
        server = aio.server(interceptors=[PolicyServerInterceptor(made, MAP)])
        server.add_generic_rpc_handlers((handlers(Behaviors(Broker())),))
        ours = [pem(authority.issue("server"))]
        credentials = grpc.ssl_server_credentials(ours, trusted, require_client_auth=True)
        port = server.add_secure_port("127.0.0.1:0", credentials)
        await server.start()
        key, certificate = pem(authority.issue("alice"))
        theirs = grpc.ssl_channel_credentials(trusted, key, certificate)
        channel: Any
        async with aio.secure_channel(f"127.0.0.1:{port}", theirs) as channel:
            await channel.unary_unary(P + "Create")(create("a"))
        await server.stop(None)
    assert [op.principal for op in sink.allows] == ["alice"]
