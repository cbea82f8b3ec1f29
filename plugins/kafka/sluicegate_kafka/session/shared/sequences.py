"""Sequence numbers of idempotent producers after a refusal.

A broker takes an idempotent producer's batches only without gaps. After a refusal most clients expect that
the broker refuses what was under way behind it with OUT_OF_ORDER_SEQUENCE_NUMBER, and close the gap
themselves. Java and librdkafka send that again, in a new epoch; franz-go has told its application already
that it has failed. So the gateway refuses it. A broker without records of the producer would take any number.
A batch that is refused for now, and that its client sends again, leaves such a gap until then.

aiokafka sends one batch of a partition at a time and never closes a gap: the broker would refuse all of its
later batches. So the gateway renumbers them, until the client sends the right number by itself. It also
renumbers transactional producers: a refusal makes them abort, and readers skip what was under way. librdkafka
changes its epoch only between transactions, and would send again for ever.
"""

from struct import Struct

from sluicegate.model import Action, Decision, Outcome, Reason
from sluicegate_kafka.codec.frames import parse_request_head
from sluicegate_kafka.codec.produce_requests import ProduceRequest, ProduceTopic, scan_produce
from sluicegate_kafka.codec.records import CRC_AT, LENGTH_AT, LOG_OVERHEAD, write_checksum

Key = tuple[int, str, int]
"""Producer id, topic, partition."""

# Fields of a batch header (KIP-98).
_ATTRIBUTES_AT = 22
_TRANSACTIONAL = 0x10
_EPOCH_AT = 51
_SEQUENCE_AT = 53
_numbers = Struct(">hii").unpack_from
"""Producer epoch, base sequence, record count."""
_i32 = Struct(">i").pack_into
_size = Struct(">i").unpack_from
_checksum = Struct(">I").unpack_from
_WRAP = 0x8000_0000
_FAR = _WRAP // 2
"""Numbers that lie further ahead than this lie behind: they wrap around."""
OUT_OF_ORDER = Decision(
    Action.REJECT,
    (Reason("", Outcome.PRECONDITION, "out of order: a batch of this producer before this one was refused"),),
)
"""The refusal of what follows a gap."""
_MAX_GAPS = 1_000
_RETRIES_KNOWN = 8


class Gap:
    """The gap in one producer's sequence numbers on one partition."""

    __slots__ = ("epoch", "expected", "missing", "refused", "renumbered", "renumbers")

    def __init__(self, epoch: int, expected: int, *, renumbers: bool) -> None:
        self.renumbers = renumbers
        """Whether what follows is renumbered, not refused."""
        self.epoch = epoch
        self.expected = expected
        """The sequence number that the broker expects next."""
        self.missing = 0
        """Records refused, by which the client's numbers are ahead."""
        self.renumbered: tuple[tuple[int, int, int], ...] = ()
        """The last batches renumbered: the client's number and checksum, and the number they were given.

        A batch that comes again is a retry of the same bytes. Its number alone is not enough: once the
        client has closed the gap, a new batch may carry a number that an older one had."""
        self.refused: tuple[tuple[int, int, Decision], ...] = ()
        """The last batches refused: number, checksum, and why."""


class GapCount:
    """How many gaps all clients have together."""

    __slots__ = ("gaps",)

    def __init__(self) -> None:
        self.gaps = 0


class Sequences:
    """The gaps of one client's producers.

    Kept for each client apart: a client that guesses another's producer id must not touch its numbers.

    :param count: counts these gaps as well.
    :param renumbers: whether what follows the next gap is always renumbered, as the client cannot go on
        otherwise.
    """

    __slots__ = ("_count", "gaps", "renumbers")

    def __init__(self, count: GapCount, *, renumbers: bool) -> None:
        self._count = count
        self.renumbers = renumbers
        self.gaps: dict[Key, Gap] = {}

    def refused(self, topic: ProduceTopic, decision: Decision) -> None:
        """A topic's batches were refused for good; batches refused before add no further gap."""
        for key, epoch, sequence, count, start in _batches(topic):
            renumbers = self.renumbers or bool(topic.frame[start + _ATTRIBUTES_AT] & _TRANSACTIONAL)
            gap = self._gap(key, epoch, sequence, renumbers=renumbers)
            if gap.expected == sequence:
                gap.missing += count
                checksum = _checksum(topic.frame, start + CRC_AT)[0]
                gap.refused = (*gap.refused[1 - _RETRIES_KNOWN :], (sequence, checksum, decision))

    def postponed(self, topic: ProduceTopic) -> None:
        """A topic's batches were refused for now: what follows is refused until they are sent again."""
        for key, epoch, sequence, _, _ in _batches(topic):
            self._gap(key, epoch, sequence, renumbers=False)

    def decided(self, topic: ProduceTopic) -> Decision | None:
        """Why a topic's batches must be refused; None if they may be decided.

        A client that lost the refusal with its connection sends the batch again. Once a later batch has taken
        its number, the broker would take it for that batch, and acknowledge a batch that it never stored.
        """
        if self.out_of_order(topic):
            return OUT_OF_ORDER
        for key, epoch, sequence, _, start in _batches(topic):
            gap = self.gaps.get(key)
            if gap is None or gap.epoch != epoch or gap.expected == sequence:
                continue
            checksum = _checksum(topic.frame, start + CRC_AT)[0]
            for refused, of, decision in gap.refused:
                if refused == sequence and of == checksum:
                    return decision
        return None

    def out_of_order(self, topic: ProduceTopic) -> list[int]:
        """The partitions of a topic whose batches follow a gap; forgets gaps that the client has closed."""
        late = []
        for key, epoch, sequence, _, _ in _batches(topic):
            gap = self.gaps.get(key)
            if gap is None or gap.renumbers:
                continue
            if gap.epoch != epoch or gap.expected == sequence:
                self._forget(key)
            elif (sequence - gap.expected) % _WRAP < _FAR:
                late.append(key[2])
        return late

    def passed(self, topic: ProduceTopic) -> None:
        """A topic's batches were forwarded, renumbered if needed."""
        for key, epoch, sequence, count, _ in _batches(topic):
            gap = self.gaps.get(key)
            if gap is not None and gap.epoch == epoch and gap.expected == sequence:
                gap.expected = (sequence + count) % _WRAP

    def mend(self, request: ProduceRequest) -> ProduceRequest:
        """Renumber the batches of a request that follow a gap.

        :return: the same object if nothing changed, else a copy to use instead.
        """
        frame, head = request.frame, request.head
        begin = head.start - 4
        copy: bytearray | None = None
        for topic in request.topics:
            for key, epoch, sequence, _, start in _batches(topic):
                number = self._number(key, epoch, sequence, _checksum(frame, start + CRC_AT)[0])
                if number != sequence:
                    copy = copy if copy is not None else bytearray(memoryview(frame)[begin : head.end])
                    _renumber(copy, start - begin, number)
        if copy is None:
            return request
        mended = bytes(copy)
        return scan_produce(mended, parse_request_head(mended, 4, len(mended)))

    def _number(self, key: Key, epoch: int, sequence: int, checksum: int) -> int:
        """The number under which the broker accepts a batch that the client numbered `sequence`."""
        gap = self.gaps.get(key)
        if gap is None:
            return sequence
        for known, of, given in gap.renumbered:
            if known == sequence and of == checksum:
                return given
        if gap.epoch != epoch or sequence == gap.expected:
            # A new epoch starts at 0 again; the expected number means that the client closed the gap.
            self._forget(key)
            return sequence
        if not gap.renumbers or sequence != (gap.expected + gap.missing) % _WRAP:
            return sequence
        number = gap.expected
        gap.renumbered = (*gap.renumbered[1 - _RETRIES_KNOWN :], (sequence, checksum, number))
        return number

    def clear(self) -> None:
        """Forget all gaps."""
        self._count.gaps -= len(self.gaps)
        self.gaps.clear()

    def _gap(self, key: Key, epoch: int, sequence: int, *, renumbers: bool) -> Gap:
        """The gap of an epoch, or a new one from `sequence` on; the oldest one goes if there are too many."""
        gap = self.gaps.get(key)
        if gap is not None and gap.epoch == epoch:
            return gap
        self._forget(key)
        gap = self.gaps[key] = Gap(epoch, sequence, renumbers=renumbers)
        self._count.gaps += 1
        if len(self.gaps) > _MAX_GAPS:
            self._forget(next(iter(self.gaps)))
        return gap

    def _forget(self, key: Key) -> None:
        if self.gaps.pop(key, None) is not None:
            self._count.gaps -= 1


def _batches(topic: ProduceTopic) -> list[tuple[Key, int, int, int, int]]:
    """Key, epoch, sequence, record count and offset of each partition's batch (Kafka allows one)."""
    if topic.producer_id < 0:
        return []
    batches = []
    for partition, (start, end) in zip(topic.partitions, topic.records, strict=True):
        if end > start:
            epoch, sequence, count = _numbers(topic.frame, start + _EPOCH_AT)
            batches.append(((topic.producer_id, topic.name, partition), epoch, sequence, count, start))
    return batches


def _renumber(copy: bytearray, start: int, sequence: int) -> None:
    """Write a batch's sequence number and the checksum that covers it."""
    _i32(copy, start + _SEQUENCE_AT, sequence)
    write_checksum(copy, start, start + LOG_OVERHEAD + _size(copy, start + LENGTH_AT)[0])
