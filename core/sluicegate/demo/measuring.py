"""What scenes of all brokers make of what their clients saw."""

from collections.abc import Sequence


def rates(times: Sequence[float], seconds: float) -> tuple[int, float]:
    """How many came in the first second, and the rate after it.

    :param times: seconds since the start, one for each message.
    :param seconds: how long was looked.
    :return: messages, and messages per second.
    """
    first = sum(at < 1.0 for at in times)
    return first, sum(1.0 <= at < seconds for at in times) / (seconds - 1.0)
