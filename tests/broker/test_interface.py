"""What subclasses of the base classes may define, and how the gateway says what is wrong."""

from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.gateway.echo_plugin import EchoConfig, EchoDriver, EchoFront, LineSession, RawSession

from sluicegate import hookimpl
from sluicegate.api import (
    PASS,
    BaseDriver,
    BaseFront,
    BaseSession,
    Close,
    Command,
    InterfaceError,
    MethodMap,
    helper,
)
from sluicegate.model import ConnectionClose, SessionClose
from sluicegate.runtime.plugins import PluginError, Plugins, load_plugins, plugins_of


def session(**members: object) -> type[BaseSession]:
    """A subclass of the smallest session, with further members."""
    return type("Acme", (RawSession,), {"__module__": __name__, **members})


def refusal(**members: object) -> str:
    """What is wrong with a session of such members."""
    with pytest.raises(InterfaceError) as caught:
        session(**members)
    return str(caught.value)


def wrong(name: str, function: Callable[..., object]) -> str:
    return refusal(**{name: function})


def test_a_misspelt_method_is_refused_with_the_nearest_name() -> None:
    text = wrong("recieve_client", lambda self, data, now_ns: PASS)
    assert text.startswith("tests.broker.test_interface.Acme defines recieve_client, which no base class has")
    assert "nearest is receive_client" in text
    assert "@helper" in text


@pytest.mark.parametrize(
    ("base", "name", "member", "nearest"),
    [
        (EchoFront, "anwser", lambda self, question: None, "answer"),
        (EchoFront, "note", property(lambda self: ()), "notes"),
        (EchoFront, "greetings", b"PING", "greeting"),
        (EchoDriver, "pressure_source", lambda self, context: (), "pressure_sources"),
        (EchoDriver, "capabilitys", {}, "capabilities"),
        (EchoDriver, "sytem", "acme", "system"),
    ],
)
def test_the_same_holds_for_fronts_and_drivers_properties_and_values(
    base: type, name: str, member: object, nearest: str
) -> None:
    with pytest.raises(InterfaceError, match=f"defines {name}, .* nearest is {nearest}:"):
        type("Acme", (base,), {name: member})


@pytest.mark.parametrize(
    "member",
    [
        lambda self, now_ns: (),
        lambda self, client_gone, now_ns: (),
        lambda self, now_ns, client_gone, more: (),
        lambda self, now_ns, *, client_gone: (),
    ],
)
def test_another_signature_is_refused(member: Callable[..., object]) -> None:
    text = wrong("wake", member)
    assert text.endswith("expected the signature of BaseSession.wake(self, now_ns, client_gone)")
    assert "defines Acme.wake(self, " in text


def test_a_method_that_must_wait_and_does_not_is_refused() -> None:
    with pytest.raises(InterfaceError, match=r"expected the signature of async EchoFront.answer\("):
        type("Acme", (EchoFront,), {"answer": lambda self, question: None})


def test_methods_and_properties_are_told_apart() -> None:
    assert "Acme.open_calls is a method, but a property" in wrong("open_calls", lambda self: 1)
    assert "Acme.closed is no method, expected BaseSession.closed(self, now_ns)" in refusal(closed=None)
    assert "is no method" in refusal(closed=staticmethod(lambda now_ns: None))


def test_optional_parameters_and_unused_names_make_no_difference() -> None:
    made = session(
        wake=lambda self, _now_ns, _client_gone, more=1: (),
        closed=lambda *arguments, **named: None,
        held_bytes=5,
        open_calls=property(lambda self: 2),
    )
    assert issubclass(made, BaseSession)


def test_private_members_helpers_and_slots_are_the_plugins_own() -> None:
    class Acme(BaseSession):
        """A session with something of its own."""

        __slots__ = ("parts",)
        _limit = 5

        @helper
        def flush(self) -> int:
            return self._limit

        @property
        @helper
        def size(self) -> int:
            return 1

        def receive_client(self, data: bytes, now_ns: int) -> Sequence[Command]:
            return PASS

        receive_upstream = receive_client

    class Derived(Acme):
        """Overrides what its base has marked."""

        def flush(self) -> int:
            return super().flush() + self.size

    assert Derived().flush() == 6
    with pytest.raises(InterfaceError, match=r"expected the signature of Acme\.flush\("):
        type("Other", (Acme,), {"flush": lambda self, more: 1})


def test_a_session_has_defaults_for_all_but_the_two_streams() -> None:
    with pytest.raises(TypeError, match="receive_client"):
        type("Acme", (BaseSession,), {"receive_upstream": RawSession.receive_upstream})()
    it: BaseSession = type(
        "Acme",
        (BaseSession,),
        {"receive_client": RawSession.receive_client, "receive_upstream": RawSession.receive_upstream},
    )()
    assert (it.client, it.held_bytes, it.frame_began_ns, it.principal) == ("", 0, 0, "ANONYMOUS")
    assert it.is_logged_in
    assert (it.places_bytes, it.unread_bytes, it.open_calls, it.reads_while_ending) == (0, 0, 0, False)
    assert it.ending(1) is None
    assert it.wake(1, client_gone=False) == it.answered("?", None, 1) == it.passed(1, 1) == ()
    assert it.wake(1, client_gone=True) == (Close(SessionClose.CLIENT_GONE),)
    assert it.undialled("refused", 1) == (Close(ConnectionClose.UPSTREAM_UNREACHABLE, "refused"),)
    assert list(it.parting(1)) == []
    with pytest.raises(NotImplementedError, match="Acme returns Dial"):
        it.dialled(1)


def test_parting_closes_a_session_that_has_no_slices() -> None:
    front = EchoFront(
        EchoConfig.model_validate(
            {"name": "e", "system": "echo", "listen": {"port": 1}, "bootstrap": ["b:1"]}
        )
    )
    assert list(LineSession(front, "1.2.3.4:5").parting(1)) == []
    assert front.closed == ["echo@1.2.3.4:5"]


async def test_a_front_has_defaults_for_all_but_its_start_and_its_sessions() -> None:
    it: BaseFront = type("Acme", (BaseFront,), {"start": EchoFront.start, "session": EchoFront.session})()
    assert (it.greeting, it.notes, it.counters()) == (b"", (), {})
    it.reached()
    it.tick(1)
    await it.stop()
    with pytest.raises(TypeError, match=r"expected no question, got 'x'"):
        await it.answer("x")


async def test_a_driver_has_defaults_for_all_but_its_names_and_its_front() -> None:
    it = EchoDriver()
    config: Any = SimpleNamespace()
    assert it.extra.missing() == []
    assert (it.capabilities, it.client_loggers, it.demo(), it.web(config, config)) == ({}, (), None, None)
    assert (*it.quota_factors(config), *it.pressure_sources(config), *it.tasks(config)) == ()
    assert not it.tells_own_settings
    with pytest.raises(NotImplementedError, match="EchoDriver does not override"):
        await it.own_settings(config, config)


# -- at start ------------------------------------------------------------------------------------------


class Offers:
    """A plugin that gives a driver."""

    def __init__(self, driver: object) -> None:
        self._driver = driver

    @hookimpl
    def sluicegate_broker(self) -> Any:
        return self._driver


def test_a_driver_that_derives_from_nothing_is_refused_at_start() -> None:
    with pytest.raises(PluginError, match="expected an instance of a subclass of BaseDriver"):
        plugins_of([Offers(SimpleNamespace(system="acme"))]).drivers  # noqa: B018


def test_so_is_one_for_a_method_map() -> None:
    class Maps:
        @hookimpl
        def sluicegate_method_map(self) -> MethodMap:
            return MethodMap("acme", {})

        @hookimpl
        def sluicegate_grpc_driver(self, methods: MethodMap) -> Any:
            return SimpleNamespace(system=methods.system)

    with pytest.raises(PluginError, match=r"sluicegate_grpc_driver raised .* expected an instance"):
        plugins_of([Maps()]).drivers  # noqa: B018


def test_a_plugin_whose_driver_is_misspelt_is_refused_at_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "acme_plugin.py").write_text(
        "from sluicegate.api import BaseDriver\nclass Acme(BaseDriver):\n    def fornt(self, config): ...\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    expected = r"'acme_plugin' cannot be imported.* acme_plugin.Acme defines fornt,.* nearest is front:"
    with pytest.raises(PluginError, match=expected):
        load_plugins(["acme_plugin"])


def front_of(front: Callable[[], object]) -> object:
    """What a gateway makes of a driver with such a front."""
    driver: BaseDriver = type("Acme", (EchoDriver,), {"front": lambda self, config: front()})()
    plugins: Plugins = plugins_of([Offers(driver)])
    config: Any = SimpleNamespace(system="echo")
    return plugins.front(config)


def test_a_front_whose_session_is_misspelt_is_refused_at_start() -> None:
    with pytest.raises(PluginError, match=r"Acme defines dialed, .* nearest is dialled"):
        front_of(lambda: session(dialed=lambda self, now_ns: ()))
    with pytest.raises(PluginError, match="expected a BaseFront"):
        front_of(lambda: SimpleNamespace(session=None))
