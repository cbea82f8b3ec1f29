"""Clients of Danube that apply the policies in the application's own process.

The originals' names and signatures; `DanubeClientBuilder` has one more keyword, `policies`: a `PolicyEngine`,
the path of a policy file, or the URL of a gateway.
"""

from sluicegate_danube.client.consumer import Consumer, ConsumerBuilder
from sluicegate_danube.client.danube_client import DanubeClient, DanubeClientBuilder
from sluicegate_danube.client.producer import Producer, ProducerBuilder

__all__ = [
    "Consumer",
    "ConsumerBuilder",
    "DanubeClient",
    "DanubeClientBuilder",
    "Producer",
    "ProducerBuilder",
]
