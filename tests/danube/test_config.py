"""What a Danube entry may say."""

from typing import Any

import pytest
from pydantic import ValidationError

from sluicegate_danube.config import DanubeConfig


def config(**options: Any) -> DanubeConfig:
    entry = {"name": "main", "system": "danube", "bootstrap": ["127.0.0.1:6650"], "listen": {"port": 6660}}
    return DanubeConfig.model_validate({**entry, **options})


def test_metadata_that_is_put_and_taken() -> None:
    metadata = config(request_metadata={"put": {"x-tenant": "blue"}, "take": ["x-debug"]}).request_metadata
    assert (metadata.put, metadata.take) == ({"x-tenant": "blue"}, ("x-debug",))


@pytest.mark.parametrize("metadata", [{"put": {"te": "gzip"}}, {"take": [":path"]}, {"put": {"x": "a\nb"}}])
def test_metadata_of_the_protocol_is_not_edited(metadata: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="cannot be edited"):
        config(request_metadata=metadata)
