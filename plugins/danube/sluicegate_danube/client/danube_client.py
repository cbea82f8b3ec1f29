"""danube-client's client with the policies in its process."""

from typing import Any

import danube

from sluicegate.client.open_policies import OpenPolicies, Policies
from sluicegate.client.policed_client import PolicedClient
from sluicegate.model import ANONYMOUS
from sluicegate_danube.client.consumer import ConsumerBuilder
from sluicegate_danube.client.producer import ProducerBuilder


class DanubeClient(danube.DanubeClient):  # type: ignore[misc]  # danube-client has no types
    """The original's client, whose producers and consumers apply the policies.

    :param policies: open, until `close_policies`.
    :param principal: whom it logs in as.
    :param original: the client that the original's builder has made.
    """

    def __init__(self, policies: OpenPolicies, principal: str, original: danube.DanubeClient) -> None:
        self.__dict__.update(vars(original))
        self._policies = policies
        self._principal = principal

    def new_producer(self) -> ProducerBuilder:
        """A builder of producers."""
        return ProducerBuilder(self)

    def new_consumer(self) -> ConsumerBuilder:
        """A builder of consumers."""
        return ConsumerBuilder(self)

    def policed(self, name: str) -> PolicedClient:
        """A producer or consumer of this client.

        :param name: its own.
        """
        return PolicedClient(self._policies.engine, self._principal, name, None)

    def close_policies(self) -> None:
        """The client is not used any more; the original has no end of its own."""
        self._policies.close()


class DanubeClientBuilder(danube.DanubeClientBuilder):  # type: ignore[misc]  # danube-client has no types
    """The original's builder.

    :param policies: an engine, the path of a policy file, or the URL of a gateway's admin endpoint.
    :param broker: the cluster's entry in that file; by default the first one.
    :param principal: whom the client logs in as, which only the broker can tell from a token.
    """

    def __init__(
        self, *args: Any, policies: Policies, broker: str | None = None, principal: str = ANONYMOUS
    ) -> None:
        super().__init__(*args)
        self._policies = policies
        self._broker = broker
        self._principal = principal

    async def build(self) -> DanubeClient:
        """Connect, as the original.

        :raises ConfigErrors: if the policy file has errors.
        """
        policies = OpenPolicies(self._policies, "danube", self._broker)
        try:
            return DanubeClient(policies, self._principal, await super().build())
        except BaseException:
            policies.close()
            raise
