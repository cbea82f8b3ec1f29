"""Errors that the broker returns to clients."""

from sluicegate_pulsar.codec import pulsar_pb2 as pb


class RefusedError(Exception):
    """A request is answered with an error; the connection stays open.

    :param code: Pulsar's error code.
    :param text: the message for the client.
    """

    def __init__(self, code: "pb.ServerError", text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text
