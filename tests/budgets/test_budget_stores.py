"""What every budget store does, for the two of the product."""

import pytest
from tests.budgets.conftest import InMemory

from sluicegate.testing.budget_contract import BudgetStoreContract, BudgetsUnderTest


class TestMemory(BudgetStoreContract):
    @pytest.fixture
    def budgets(self) -> BudgetsUnderTest:
        return InMemory()
