"""The picture of a play."""

from xml.etree import ElementTree

from tests.demo.first_minute.plays import WAIT_S, played

from sluicegate.demo.first_minute.judging import judge
from sluicegate.demo.first_minute.picture import Caption, picture

_MOST_BYTES = 40_000


def test_it_is_small_valid_and_has_what_was_measured() -> None:
    record = played(told="<b>[Error 44] & more")
    caption = Caption(["policies set noisy", "max_publish_rate=4/s"], "aiokafka")
    drawn = picture(record, judge(record, 4, WAIT_S), caption)
    assert len(drawn.encode()) < _MOST_BYTES
    texts = [each.text for each in ElementTree.fromstring(drawn).iter() if each.text]
    assert "p99 of the neighbour: 5.0 ms alone, 1,000 ms beside the noise, 10 ms after the command" in texts
    assert "refused: <b>[Error 44] & more" in texts
    for text in (*caption.command, caption.source, "the noise begins", "p50", "p99"):
        assert text in texts
    assert "prefers-color-scheme: dark" in drawn
    assert "<script" not in drawn


def test_all_lines_lie_within_the_picture() -> None:
    record = played()
    drawn = picture(record, judge(record, 4, WAIT_S), Caption((), ""))
    root = ElementTree.fromstring(drawn)
    width, height = (float(found) for found in root.attrib["viewBox"].split()[2:])
    for line in root.iter("{http://www.w3.org/2000/svg}polyline"):
        points = [point.split(",") for point in line.attrib["points"].split()]
        assert len(points) == 35
        assert all(0 <= float(x) <= width and 0 <= float(y) <= height for x, y in points)
