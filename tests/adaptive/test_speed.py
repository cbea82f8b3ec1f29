"""What a cycle costs; it runs in the tasks' thread, but shares the interpreter with the relay."""

import asyncio
import time

import pytest
from tests.adaptive.lab import Lab

TOPICS = 1_000


@pytest.mark.parametrize("metrics", [False, True])
def test_a_cycle_over_1000_topics_takes_at_most_20_ms(metrics: bool) -> None:
    lab = Lab(TOPICS, settings={"adaptive_publish_throttling_per_topic_metrics_enabled": metrics})
    lab.learn()

    async def cycles(share: float) -> list[float]:
        took = []
        for _ in range(5):
            for name in lab.gates:
                lab.press(share, name)
            lab.clock.advance(1)
            began = time.thread_time()  # not of other threads, and not while others have the processor
            await lab.tasks[0].run()
            took.append((time.thread_time() - began) * 1000)
        return took

    assert min(asyncio.run(cycles(0.0))) < 20  # nothing is throttled
    asyncio.run(cycles(0.95))
    assert sum(topic.limiter.switch.on for topic in lab.controller.topics) == TOPICS
    assert min(asyncio.run(cycles(0.95))) < 20  # everything is


def test_what_the_relays_thread_is_asked_to_do_comes_in_small_pieces() -> None:
    lab = Lab(TOPICS)
    lab.learn()
    for name in lab.gates:
        lab.press(0.95, name)
    before = lab.context.applied
    lab.cycle()
    assert lab.context.applied - before == TOPICS / 100
