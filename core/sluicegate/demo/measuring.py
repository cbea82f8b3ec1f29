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


def highest(limit: float, first: int, seconds: float) -> float:
    """The highest rate after the first second that a limit allows for, a little more than it says.

    :param limit: messages per second; the burst is what it lets pass in one second.
    :param first: how many came in the first second; what they left of the burst may come later.
    :param seconds: how long was looked.
    """
    return 1.05 * limit + max(0.0, 2 * limit - first) / (seconds - 1.0)
