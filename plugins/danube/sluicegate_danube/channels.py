"""gRPC channels to brokers, for the gateway's own calls. gRPC's client is loaded by the first one."""

from pathlib import Path
from typing import TYPE_CHECKING

from sluicegate_danube.config import DanubeConfig

if TYPE_CHECKING:
    import grpc.aio


def connect(config: DanubeConfig, target: str, *, is_tls: bool) -> "grpc.aio.Channel":
    """A channel to a broker.

    :param target: `host:port`.
    :param is_tls: whether to speak TLS, by `tls.broker`.
    :raises OSError: if a file of `tls.broker` cannot be read.
    """
    import grpc
    import grpc.aio

    # Credentials go to the broker itself, as over all other connections of the gateway.
    options: list[tuple[str, int | str]] = [("grpc.enable_http_proxy", 0)]
    if not is_tls:
        return grpc.aio.insecure_channel(target, options)
    tls = config.tls.broker
    ca, cert, key, name = (tls.ca, tls.cert, tls.key, tls.server_name) if tls is not None else (None,) * 4
    credentials = grpc.ssl_channel_credentials(_content(ca), _content(key), _content(cert))
    if name is not None:
        options.append(("grpc.ssl_target_name_override", name))
    return grpc.aio.secure_channel(target, credentials, options)


def _content(path: str | None) -> bytes | None:
    return Path(path).read_bytes() if path is not None else None
