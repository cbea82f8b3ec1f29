"""What every budget store does, for the two of the product."""

import pytest
from tests.budgets.conftest import InMemory, InRedis

from sluicegate.testing.budget_contract import BudgetStoreContract, BudgetsUnderTest


class TestMemory(BudgetStoreContract):
    @pytest.fixture
    def budgets(self) -> BudgetsUnderTest:
        return InMemory()


class TestRedis(BudgetStoreContract):
    # It grants what this process grants, as test_law.py shows.
    test_a_limit_is_used_and_shared_by_demand = None  # type: ignore[assignment]

    @pytest.fixture
    def budgets(self, in_redis: InRedis) -> BudgetsUnderTest:
        return in_redis


class TestCluster(TestRedis):
    @pytest.fixture
    def budgets(self, in_cluster: InRedis) -> BudgetsUnderTest:
        return in_cluster
