"""What cannot be done, with the status that says so."""


class WebError(Exception):
    """Ends a request; the client is told in Pulsar's own form, `{"reason": ...}`.

    :param status: HTTP status.
    :param reason: what was wrong and what to do. It names no address behind the gateway.
    :param detail: what the log says besides, for the operator.
    """

    def __init__(self, status: int, reason: str, detail: str = "") -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.detail = detail
