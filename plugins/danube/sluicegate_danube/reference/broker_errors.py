"""Errors of the reference broker."""

from grpc import StatusCode


class RefusedError(Exception):
    """A call that is answered with a status other than OK.

    :param code: as Danube answers.
    :param text: human-readable.
    """

    def __init__(self, code: StatusCode, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text
