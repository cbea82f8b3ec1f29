"""Producer ids that a handler does not know take no place, with any interceptor."""

from dataclasses import replace
from typing import Any

import grpc
import pytest
from grpc import aio
from tests.grpc.interceptors.aio.serving import Behaviors
from tests.grpc.interceptors.sync import serving as sync_serving
from tests.grpc.lab import MAP, TOPIC, Broker, P, engine, handlers, message, producers
from tests.waiting import until, until_so

from sluicegate.model import Method, Role
from sluicegate_grpc.aio import PolicyServerInterceptor, policy_client_interceptors
from sluicegate_grpc.sync import PolicyClientInterceptor

SEND = Method(Role.PUBLISH, topic=(3,), producer=(1,), name=(4,), payload=(2,))
METHODS = replace(MAP, methods={**MAP.methods, P + "Send": SEND})
KNOWN = 1
CODE = grpc.StatusCode


def send(producer: int, name: str = "") -> bytes:
    return message({1: producer, 2: b"x", 3: TOPIC, 4: name})


def is_known(request: bytes) -> bool:
    return request[1] == KNOWN


class Forgetful(Behaviors):
    """Knows one producer."""

    async def Send(self, request: bytes, context: Any) -> bytes:  # noqa: N802
        if not is_known(request):
            await context.abort(CODE.NOT_FOUND, "no such producer")
        return self.broker.publish(request)


class SyncForgetful(sync_serving.Behaviors):
    """Knows one producer."""

    def Send(self, request: bytes, context: Any) -> bytes:  # noqa: N802
        if not is_known(request):
            context.abort(CODE.NOT_FOUND, "no such producer")
        return self.broker.publish(request)


@pytest.mark.parametrize("side", ["server", "client"])
async def test_grpc_aio(side: str) -> None:
    made = engine(max_producers_per_topic=1)
    on_server = [PolicyServerInterceptor(made, METHODS)] if side == "server" else []
    on_client = policy_client_interceptors(made, METHODS) if side == "client" else []
    server = aio.server(interceptors=on_server)
    server.add_generic_rpc_handlers((handlers(Forgetful(Broker())),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with aio.insecure_channel(f"127.0.0.1:{port}", interceptors=on_client) as channel:
            call: Any = channel.unary_unary(P + "Send")
            for producer in range(2, 6):
                with pytest.raises(aio.AioRpcError) as refused:
                    await call(send(producer))
                assert (refused.value.code(), refused.value.details()) == (CODE.NOT_FOUND, "no such producer")
                await until_so(lambda: producers(made) == 0)
            await call(send(KNOWN, "p"))
            await call(send(KNOWN))
            assert producers(made) == 1
            with pytest.raises(aio.AioRpcError, match="Producer limit reached"):
                await call(send(2))
            assert producers(made) == 1
    finally:
        await server.stop(None)
        made.close()


@pytest.mark.parametrize("side", ["server", "client"])
@pytest.mark.parametrize("style", ["call", "future"])
def test_threads(monkeypatch: pytest.MonkeyPatch, side: str, style: str) -> None:
    monkeypatch.setattr(sync_serving, "Behaviors", SyncForgetful)
    monkeypatch.setattr(sync_serving, "MAP", METHODS)
    made = engine(max_producers_per_topic=1)
    with sync_serving.serving(made, policed=side == "server") as served:
        if side == "client":
            interceptor = PolicyClientInterceptor(made, METHODS)
            served.channel = grpc.intercept_channel(served.channel, interceptor)

        def call(request: bytes) -> object:
            return (
                served.unary("Send", request) if style == "call" else served.future("Send", request).result()
            )

        for producer in range(2, 6):
            assert sync_serving.refused(call, send(producer)).text == "no such producer"
            until(lambda: producers(made) == 0)
        call(send(KNOWN, "p"))
        call(send(KNOWN))
        assert producers(made) == 1
        assert sync_serving.refused(call, send(2)).text.startswith("Producer limit reached")
