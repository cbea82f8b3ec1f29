"""The product's own policies, ready to be asked."""

import pytest
from tests.policies.lab import PolicyLab


@pytest.fixture
def lab() -> PolicyLab:
    return PolicyLab()
