"""What every budget store does, for the two of the product."""

import pytest
from tests.budgets.conftest import InMemory, InRedis

from sluicegate.testing.budget_contract import BudgetStoreContract, BudgetsUnderTest


class TestMemory(BudgetStoreContract):
    @pytest.fixture
    def budgets(self) -> BudgetsUnderTest:
        return InMemory()


class TestRedis(BudgetStoreContract):
    @pytest.fixture
    def budgets(self, in_redis: InRedis) -> BudgetsUnderTest:
        return in_redis


class TestCluster(BudgetStoreContract):
    @pytest.fixture
    def budgets(self, in_cluster: InRedis) -> BudgetsUnderTest:
        return in_cluster
