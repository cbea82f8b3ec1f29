"""Options of a Danube entry."""

from typing import Any

import pytest
from pydantic import ValidationError

from sluicegate_danube.config import DanubeConfig, Http2
from sluicegate_grpc.proxy.splice import Limits


def config(**options: Any) -> DanubeConfig:
    entry = {"name": "main", "system": "danube", "bootstrap": ["127.0.0.1:6650"], "listen": {"port": 6660}}
    return DanubeConfig.model_validate({**entry, **options})


def test_metadata_to_add_and_to_remove() -> None:
    metadata = config(request_metadata={"put": {"x-tenant": "blue"}, "take": ["x-debug"]}).request_metadata
    assert (metadata.put, metadata.take) == ({"x-tenant": "blue"}, ("x-debug",))


@pytest.mark.parametrize("rule", ["refuse", "pass", {"danube.Tomorrow": "pass", "a.b_c.D": "refuse"}, {}])
def test_unknown_methods_have_one_rule_or_one_for_each_service(rule: object) -> None:
    assert config(unknown_methods=rule).unknown_methods == rule


@pytest.mark.parametrize(
    "rule", ["allow", {"danube.Tomorrow": "yes"}, {"/danube.Tomorrow/": "pass"}, {"": "pass"}]
)
def test_an_invalid_rule_is_refused(rule: object) -> None:
    with pytest.raises(ValidationError) as refused:
        config(unknown_methods=rule)
    assert len(refused.value.errors()) == 1


def test_sizes_are_payload_sizes_by_default() -> None:
    assert config().size_of == "payload"
    assert config(size_of="message").size_of == "message"
    with pytest.raises(ValidationError):
        config(size_of="record")


@pytest.mark.parametrize("metadata", [{"put": {"te": "gzip"}}, {"take": [":path"]}, {"put": {"x": "a\nb"}}])
def test_metadata_of_the_protocol_is_not_edited(metadata: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="cannot be edited"):
        config(request_metadata=metadata)


def test_limits_of_connections_are_options() -> None:
    limits = Http2(max_streams=1, resets=2, window_updates=3, pings=4, settings=5, empty_frames=6).limits
    assert limits == Limits(max_streams=1, resets=2, window_updates=3, pings=4, settings=5, empty_frames=6)
    assert Http2().limits == Limits()
