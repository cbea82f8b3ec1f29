"""Memory read from metrics, of real HTTP servers in every state."""

import socket
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.features.pressure.serving import failed, ok, server

from sluicegate.features.pressure.scraped_memory import JVM_HEAP, MetricsError, MetricsMemory
from sluicegate.features.pressure.text_format import Selector, labels_of, series, total
from sluicegate.host.http_get import HttpError

PULSAR = """\
# HELP jvm_memory_bytes_used Used bytes of a given JVM memory area.
# TYPE jvm_memory_bytes_used gauge
jvm_memory_bytes_used{cluster="standalone",area="heap"} 6.0E8
jvm_memory_bytes_used{cluster="standalone",area="nonheap"} 1.5E8
# TYPE jvm_memory_bytes_max gauge
jvm_memory_bytes_max{cluster="standalone",area="heap"} 1.0E9
jvm_memory_bytes_max{cluster="standalone",area="nonheap"} -1.0
jvm_memory_bytes_used_total 99
"""
JMX = """\
jvm_memory_used_bytes{area="heap",} 300
jvm_memory_used_bytes{area="nonheap",} 5
jvm_memory_max_bytes{area="heap",} 400
"""


@pytest.mark.seed("S5-021")
@pytest.mark.parametrize(
    ("text", "share"),
    [
        (PULSAR, 0.6),
        (JMX, 0.75),
        ("java_lang_Memory_HeapMemoryUsage_used 1\njava_lang_Memory_HeapMemoryUsage_max 4\n", 0.25),
        (
            "java_lang_memory_heapmemoryusage_used 1 1700000000000\njava_lang_memory_heapmemoryusage_max 2\n",
            0.5,
        ),
        ('jvm_memory_used_bytes{area="heap"} 5\njvm_memory_max_bytes{area="heap"} -1\n', 0.0),
    ],
)
async def test_a_jvms_heap_is_found_under_its_usual_names(text: str, share: float) -> None:
    async with server(lambda path: ok(text)) as broker:
        assert await MetricsMemory(f"{broker.url}/metrics/").read() == share
    assert broker.asked == ["/metrics/"]


@pytest.mark.seed("S5-021")
async def test_other_series_can_be_named_and_a_token_shown() -> None:
    text = 'rss{pod="a{b}",x="y"} 2\nrss{pod="c"} 9\nroom{pod="a{b}"} 8\n'
    async with server(lambda path: ok(text)) as broker:
        memory = MetricsMemory(broker.url, 'rss{pod="a{b}"}', 'room{pod = "a{b}"}', token="t0k")
        assert await memory.read() == 0.25
    assert "authorization: bearer t0k" in broker.headers[0].lower()


@pytest.mark.seed("S5-055")
@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (failed(503, "Busy"), "answers 503 Busy"),
        (failed(302), "answers 302"),
        (b"\x00\xff" * 1000, "http://"),
        (b"", "http://"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\njvm", "http://"),
    ],
)
async def test_wrong_answers_are_errors(answer: bytes, problem: str) -> None:
    async with server(lambda path: answer) as broker:
        with pytest.raises((HttpError, MetricsError), match=problem):
            await MetricsMemory(f"{broker.url}/metrics").read()


@pytest.mark.seed("S5-055")
async def test_responses_without_the_series_name_the_missing_ones() -> None:
    for text in (
        "",
        "up 1\n",
        'jvm_memory_used_bytes{area="nonheap"} 1\n',
        "<html>jvm_memory_used_bytes</html>",
    ):
        async with server(lambda path, text=text: ok(text)) as broker:  # type: ignore[misc]
            with pytest.raises(MetricsError, match="has none of jvm_memory_used_bytes, "):
                await MetricsMemory(f"{broker.url}/metrics?secret=1").read()


@pytest.mark.seed("S5-055")
async def test_a_slow_server_and_one_that_is_down() -> None:
    async with server(lambda path: None) as broker:
        with pytest.raises(HttpError, match=r"does not answer within 0\.1 s"):
            await MetricsMemory(broker.url, timeout_s=0.1).read()
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        with pytest.raises(HttpError, match="http://127"):
            await MetricsMemory(f"http://127.0.0.1:{held.getsockname()[1]}").read()


@pytest.mark.seed("S5-055")
async def test_a_huge_answer_is_not_taken_in() -> None:
    async with server(lambda path: ok(b"x" * (17 * 1024 * 1024))) as broker:
        with pytest.raises(HttpError, match="more than 16777216 bytes"):
            await MetricsMemory(broker.url).read()


def test_a_large_answer_is_searched_quickly() -> None:
    text = 'pulsar_topics_count{cluster="c",namespace="public/default"} 1.0\n' * 150_000 + PULSAR
    began = time.thread_time()
    assert total(text, Selector.parse(JVM_HEAP[1][0])) == 6e8
    assert time.thread_time() - began < 0.2  # 9 MB; holds the lock of the interpreter all the while


@pytest.mark.parametrize("text", ["", "1x", 'a{b="c"', "a b", "a{b=c}", 'a{"b"}', '{b="c"}'])
def test_names_of_series_that_cannot_be_read(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a series|cannot read the labels"):
        Selector.parse(text)


def test_labels_may_hold_anything() -> None:
    text = 'a{path="C:\\\\x\\"}{,=\\n",b="",} 1\na{broken} 2\na{b="c"} what\na 3\nb{a="1"} 4\naa 5\n'
    assert [(dict(labels), value) for labels, value in series(text, "a")] == [
        ({"path": 'C:\\x"}{,=\n', "b": ""}, 1),
        ({}, 3),
    ]
    assert total("a NaN\na +Inf\na 2\n", Selector("a")) == 2
    assert total("b 1\n", Selector("a")) is None


@given(
    st.dictionaries(st.from_regex(r"[a-z_]\w{0,5}", fullmatch=True).filter(str.isascii), st.text(max_size=8))
)
def test_labels_come_back_as_they_were_written(labels: dict[str, str]) -> None:
    escaped = {
        name: value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        for name, value in labels.items()
    }
    assert labels_of(",".join(f'{name}="{value}"' for name, value in escaped.items())) == labels
