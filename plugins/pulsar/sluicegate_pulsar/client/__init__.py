"""Clients of Pulsar that apply the policies in the application's own process.

`Client` has the original's name and signature with one more keyword, `policies`: a `PolicyEngine`, the
path of a policy file, or the URL of a gateway. Its producers, consumers and readers are subclasses of the
original's.
"""

from sluicegate_pulsar.client.consumer import Consumer, Reader
from sluicegate_pulsar.client.producer import Producer
from sluicegate_pulsar.client.pulsar_client import Client

__all__ = ["Client", "Consumer", "Producer", "Reader"]
