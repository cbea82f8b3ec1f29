"""What the broker refuses."""

from sluicegate_pulsar.codec import pulsar_pb2 as pb


class RefusedError(Exception):
    """A request that is answered with an error; the connection stays.

    :param code: Pulsar's code for it.
    :param text: the message for the client.
    """

    def __init__(self, code: "pb.ServerError", text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text
