"""The Python client's exceptions for refusals in its own process."""

import pytest

from sluicegate.client.refused import RefusedError
from sluicegate.model import Action, Decision, Outcome, Reason
from sluicegate_pulsar.client.exceptions import kind_of


@pytest.mark.parametrize(
    ("policy", "kind"),
    [
        ("max_producers_per_topic", "ProducerBusy"),
        ("max_subscriptions_per_topic", "ConsumerBusy"),
        ("max_message_size", "MessageTooBig"),
        ("max_delivery_delay", "NotAllowedError"),
        ("read_only", "NotAllowedError"),
        ("write_only", "NotAllowedError"),
        ("client_id_pattern", "NotAllowedError"),
    ],
)
def test_a_refusal_has_the_exception_that_the_gateway_causes(policy: str, kind: str) -> None:
    reason = Reason(policy, Outcome.LIMIT_REACHED, "Refused.")

    assert kind_of(RefusedError(Decision(Action.REJECT, (reason,)))) == kind
