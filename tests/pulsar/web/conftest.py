"""A web site, its client, and the admin API behind it."""

from collections.abc import AsyncIterator

import pytest
from tests.pulsar.web.fake_admin import FakeAdmin
from tests.pulsar.web.lab import FakeServices, Lab, lab_of


@pytest.fixture
def admin() -> FakeAdmin:
    """The admin API; change what it does before the site is asked."""
    return FakeAdmin()


@pytest.fixture
def services() -> FakeServices:
    """The gateway's policies."""
    return FakeServices()


@pytest.fixture
async def lab(admin: FakeAdmin, services: FakeServices) -> AsyncIterator[Lab]:
    """All together."""
    async with lab_of(admin, services) as made:
        yield made
