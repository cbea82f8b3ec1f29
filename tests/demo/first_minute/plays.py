"""A play by the manual clock: 10 s alone, 10 s beside the noise, 15 s behind the limit."""

from sluicegate.demo.first_minute.record import Record

NOISE, LIMIT, SETTLED, END = 10.0, 20.0, 24.0, 35.0
WAIT_S = 1.0
RATE = 20


def played(
    alone: float = 0.005, beside: float = 1.0, after: float = 0.01, passed: int = 4, told: str = "[Error 44]"
) -> Record:
    """A record.

    :param alone: latency of the neighbour's messages before the noise, in seconds.
    :param beside: the same beside the noise.
    :param after: the same behind the limit.
    :param passed: messages of the noisy producer per second behind the limit.
    """
    record = Record(1_000.0, noisy_at=NOISE, limited_at=LIMIT, settled_at=SETTLED, ended_at=END)
    for tick in range(round(END) * RATE):
        at = tick / RATE
        latency = alone if at < NOISE else beside if at < LIMIT else after
        record.take_neighbour([(record.began + at, latency)], [])
        if at >= NOISE:
            due = record.began + at
            slot = tick % RATE
            acknowledged = [due] if at < LIMIT or slot < passed else []
            record.take_noisy(
                acknowledged, [] if acknowledged else [due], told if at >= LIMIT else "", "noisy-1"
            )
    return record
