"""Limits on counts over several gateways: what one has is taken for all."""

import asyncio

import pytest
from tests.leasing.gateways import LEASE_NS, MS, Fleet, Gateway, S, consumer, creation, producer
from tests.waiting import until_so

from sluicegate.model import Action, Outcome

PRODUCERS = "max_producers_per_topic"
SUBSCRIPTIONS = "max_subscriptions_per_topic"
TOPIC_CONSUMERS = "max_consumers_per_topic"
SUBSCRIPTION_CONSUMERS = "max_consumers_per_subscription"


async def test_the_places_of_all_gateways_are_counted_together() -> None:
    fleet = Fleet({PRODUCERS: 2})
    one, two = fleet.add("one"), fleet.add("two")

    assert one.decide(producer("a")) == "asking"
    assert await one.attach(producer("a")) == "in"
    assert await two.attach(producer("b")) == "in"
    assert await one.attach(producer("c")) == "out"
    assert await two.attach(producer("c")) == "out"

    decision = two.gate.decide(producer("c"), fleet.now_ns)
    await two.holder.turn()
    decision = two.gate.decide(producer("c"), fleet.now_ns)
    assert decision is not None
    assert decision.action is Action.REJECT
    assert decision.reasons[0].outcome is Outcome.LIMIT_REACHED
    assert "Current: 2, Limit: 2." in decision.text


async def test_what_waits_for_its_place_is_not_recorded_as_delayed() -> None:
    fleet = Fleet({PRODUCERS: 1})
    one = fleet.add("one")

    assert await one.attach(producer("a")) == "in"

    assert one.state.delayed == 0
    assert not one.sink.decisions
    assert [op.producer for op in one.sink.allows] == ["a"]


async def test_a_store_that_does_not_answer_delays_by_the_policy() -> None:
    fleet = Fleet({PRODUCERS: 1})
    one = fleet.add("one")
    one.store.is_away = True
    op = producer("a")

    assert await one.attach(op) == "asking"
    fleet.now_ns += 200 * MS
    decision = one.gate.decide(op, fleet.now_ns)

    assert decision is not None
    assert decision.reasons[0].policy == PRODUCERS
    assert "has not answered yet" in decision.text
    assert one.state.delayed == 1


async def test_what_leaves_is_free_for_others_at_once_here_and_soon_elsewhere() -> None:
    fleet = Fleet({PRODUCERS: 1})
    one, two = fleet.add("one"), fleet.add("two")
    assert await one.attach(producer("a")) == "in"

    one.gate.detach(producer("a"))
    assert await one.attach(producer("b")) == "in"
    one.gate.detach(producer("b"))
    await fleet.wait(200 * MS)
    assert await two.attach(producer("c")) == "in"


@pytest.mark.parametrize("roams", [True, False])
async def test_what_left_before_it_was_seen_frees_its_place_at_once(roams: bool) -> None:
    fleet = Fleet({PRODUCERS: 1})
    one, two = fleet.add("one"), fleet.add("two")
    assert await one.attach(producer("a", roams=roams)) == "in"

    one.gate.detach(producer("a", roams=roams))
    fleet.now_ns += 100 * MS
    await one.holder.turn()
    assert await two.attach(producer("b")) == "in"


async def test_places_are_kept_for_as_long_as_their_gateway_lives() -> None:
    fleet = Fleet({PRODUCERS: 1})
    one, two = fleet.add("one"), fleet.add("two")
    assert await one.attach(producer("a")) == "in"

    await fleet.wait(10 * LEASE_NS)
    assert await two.attach(producer("b")) == "out"

    fleet.gateways.remove(one)  # it dies
    await fleet.wait(LEASE_NS)
    assert await two.attach(producer("b")) == "in"


async def test_a_producer_keeps_its_place_where_it_reconnects_if_its_key_is_its_own() -> None:
    fleet = Fleet({PRODUCERS: 1})
    one, two = fleet.add("one"), fleet.add("two")
    assert await one.attach(producer("a")) == "in"

    assert await two.attach(producer("a")) == "in"
    one.gate.detach(producer("a"))
    await fleet.wait(2 * S)
    assert await one.attach(producer("b")) == "out"


async def test_a_gateway_that_notices_late_takes_no_place_from_where_its_client_went() -> None:
    fleet = Fleet({PRODUCERS: 1})
    one, two, three = fleet.add("one"), fleet.add("two"), fleet.add("three")
    assert await one.attach(producer("a")) == "in"
    assert await two.attach(producer("a")) == "in"
    fleet.now_ns += LEASE_NS // 2
    await one.holder.turn()  # it renews the place

    one.gate.detach(producer("a"))
    fleet.now_ns += 100 * MS
    await one.holder.turn()
    assert await three.attach(producer("b")) == "out"


async def test_equal_keys_of_two_gateways_are_two_producers_unless_they_roam() -> None:
    fleet = Fleet({PRODUCERS: 1})
    one, two = fleet.add("one"), fleet.add("two")

    assert await one.attach(producer("client 1", roams=False)) == "in"
    assert await two.attach(producer("client 1", roams=False)) == "out"


async def test_a_producer_that_the_broker_names_takes_its_place_along() -> None:
    fleet = Fleet({PRODUCERS: 1})
    one, two = fleet.add("one"), fleet.add("two")
    assert await one.attach(producer("id 1", roams=False)) == "in"

    one.state.producers.rename("id 1", "name a", roams=True)
    await fleet.wait(2 * S)
    assert await two.attach(producer("b")) == "out"
    fleet.gateways.remove(one)
    assert await two.attach(producer("name a")) == "in"


async def test_one_that_takes_no_place_after_all_gives_it_back() -> None:
    fleet = Fleet({TOPIC_CONSUMERS: 1, SUBSCRIPTION_CONSUMERS: 1})
    one, two = fleet.add("one"), fleet.add("two")

    assert one.decide(consumer("a")) == "asking"
    await one.holder.turn()  # the answer comes, but the client has gone
    assert await two.attach(consumer("b")) == "out"
    await fleet.wait(1_200 * MS)
    assert await two.attach(consumer("b")) == "out", "it may be delayed by another policy"
    await fleet.wait(3 * S)
    assert await two.attach(consumer("b")) == "asking"  # the second of two limits
    assert await two.attach(consumer("b")) == "in"


@pytest.mark.parametrize(("policy", "elsewhere"), [(TOPIC_CONSUMERS, "out"), (SUBSCRIPTION_CONSUMERS, "in")])
async def test_consumers_are_counted_by_topic_or_by_subscription(policy: str, elsewhere: str) -> None:
    fleet = Fleet({policy: 1})
    one, two = fleet.add("one"), fleet.add("two")
    assert await one.attach(consumer("a", "s")) == "in"

    assert await two.attach(consumer("b", "s")) == "out"
    assert await two.attach(consumer("b", "t")) == elsewhere


async def test_subscriptions_that_others_create_at_this_moment_count() -> None:
    fleet = Fleet({SUBSCRIPTIONS: 3})
    one, two = fleet.add("one"), fleet.add("two")
    for gateway in fleet.gateways:
        gateway.state.learn_subscriptions(["s1"])

    assert await one.attach(creation("s2")) == "in"
    assert await two.attach(creation("s3")) == "in"
    assert await one.attach(creation("s4")) == "out"
    await fleet.wait(2 * LEASE_NS)  # the broker is slow to create them
    assert await one.attach(creation("s4")) == "out"


async def test_subscriptions_that_exist_take_places_only_when_one_is_created() -> None:
    fleet = Fleet({SUBSCRIPTIONS: 3})
    one = fleet.add("one")
    one.state.learn_subscriptions(["s1"])
    await fleet.wait(2 * LEASE_NS)
    assert one.store.held == 0
    assert await one.attach(creation("s2")) == "in"
    assert one.store.held == 2


async def test_a_subscription_that_was_not_created_frees_its_place() -> None:
    fleet = Fleet({SUBSCRIPTIONS: 1})
    one, two = fleet.add("one"), fleet.add("two")
    for gateway in fleet.gateways:
        gateway.state.learn_subscriptions([])
    assert await one.attach(creation("s1")) == "in"

    one.state.take_back("s1")
    await fleet.wait(200 * MS)
    assert await two.attach(creation("s2")) == "in"


async def test_those_that_are_there_when_a_limit_is_set_take_places() -> None:
    fleet = Fleet({})
    one, two = fleet.add("one"), fleet.add("two")
    assert one.decide(producer("a")) == one.decide(producer("b")) == "in"

    fleet.policies[PRODUCERS] = 3
    one.compile()
    two.compile()
    await fleet.wait(200 * MS)

    assert await two.attach(producer("c")) == "in"
    assert await two.attach(producer("d")) == "out"


async def test_a_gateway_finds_its_places_again_after_the_store_lost_all() -> None:
    fleet = Fleet({PRODUCERS: 2})
    one, two = fleet.add("one"), fleet.add("two")
    assert await one.attach(producer("a")) == "in"
    assert await two.attach(producer("b")) == "in"

    fleet.budgets.forget()
    assert await two.attach(producer("c")) == "asking"  # it does not know yet who is there
    await fleet.wait(2 * LEASE_NS)
    assert await two.attach(producer("c")) == "out"


@pytest.mark.parametrize(("on_lost", "admitted"), [("share", 3), ("open", 7), ("pause", 0)])
async def test_without_the_store_new_ones_are_admitted_as_configured(on_lost: str, admitted: int) -> None:
    fleet = Fleet({PRODUCERS: 7}, on_lost)  # type: ignore[arg-type]
    one = fleet.add("one")
    fleet.add("two")
    one.store.is_away = True
    first = producer("first")
    for _ in range(40):  # its door holds it
        one.decide(first)
        await fleet.wait(100 * MS)
    one.gate.detach(first)

    answers = [one.decide(producer(str(number))) for number in range(10)]

    assert answers == ["in"] * admitted + ["out"] * (10 - admitted)


@pytest.mark.parametrize(("there", "admitted"), [((8, 2), 0), ((7, 1), 2), ((2, 3), 4), ((0, 0), 10)])
async def test_without_the_store_all_together_stay_at_the_limit(
    there: tuple[int, int], admitted: int
) -> None:
    fleet = Fleet({PRODUCERS: 10})
    for name, count in zip(("one", "two"), there, strict=True):
        gateway = fleet.add(name)
        for number in range(count):
            assert await gateway.attach(producer(f"{name} {number}")) == "in"
    await fleet.wait(LEASE_NS)
    for gateway in fleet.gateways:
        gateway.store.is_away = True
    held = [(each, producer(f"{each.name} more")) for each in fleet.gateways]
    for _ in range(40):  # their doors hold them
        for gateway, op in held:
            gateway.decide(op)
        await fleet.wait(100 * MS)
    for gateway, op in held:
        gateway.gate.detach(op)
    new = [(each, producer(f"{each.name} new {number}")) for each in fleet.gateways for number in range(10)]
    answers = [gateway.decide(op) for gateway, op in new]

    assert answers.count("in") == admitted
    assert sum(there) + admitted <= 10


async def test_the_store_decides_again_with_its_first_answer() -> None:
    fleet = Fleet({PRODUCERS: 1}, "open")
    one, two = fleet.add("one"), fleet.add("two")
    assert await two.attach(producer("b")) == "in"
    one.store.is_away = True
    for _ in range(40):
        one.gate.detach(producer("a"))
        one.decide(producer("a"))
        await fleet.wait(100 * MS)
    assert one.decide(producer("a")) == "in"
    one.gate.detach(producer("a"))
    one.store.is_away = False
    one.decide(producer("c"))
    await fleet.wait(300 * MS)
    one.gate.detach(producer("c"))
    assert await one.attach(producer("d")) == "out"


async def test_places_are_renewed_three_times_in_a_lease() -> None:
    fleet = Fleet({PRODUCERS: 1})
    one = fleet.add("one")
    assert await one.attach(producer("a")) == "in"
    calls = one.store.held
    await fleet.wait(LEASE_NS)
    assert one.store.held - calls == 3


async def test_what_is_there_stays_when_the_store_is_away_and_is_counted_when_it_is_back() -> None:
    fleet = Fleet({PRODUCERS: 2})
    one, two = fleet.add("one"), fleet.add("two")
    assert await one.attach(producer("a")) == "in"
    assert await one.attach(producer("b")) == "in"

    one.store.is_away = two.store.is_away = True
    await fleet.wait(2 * LEASE_NS)
    assert one.decide(producer("a")) == "in"
    assert len(one.state.producers) == 2
    one.store.is_away = two.store.is_away = False
    await fleet.wait(2 * S)

    assert await two.attach(producer("c")) == "out"


async def test_a_policy_that_only_observes_holds_nothing_up() -> None:
    fleet = Fleet({PRODUCERS: 1, "mode.max_producers_per_topic": "observe"})
    one = fleet.add("one")

    assert one.decide(producer("a")) == "in"
    assert one.state.observed == 0


async def test_those_beyond_a_lowered_limit_stay_and_nothing_new_fits_in() -> None:
    fleet = Fleet({PRODUCERS: 3})
    one, two = fleet.add("one"), fleet.add("two")
    for name in "abc":
        assert await one.attach(producer(name)) == "in"

    fleet.policies[PRODUCERS] = 2
    two.compile()
    await fleet.wait(LEASE_NS)
    assert await two.attach(producer("d")) == "out"
    one.gate.detach(producer("a"))
    await fleet.wait(200 * MS)
    assert await two.attach(producer("d")) == "out"
    one.gate.detach(producer("b"))
    await fleet.wait(200 * MS)
    assert await two.attach(producer("d")) == "in"


async def test_the_lowest_limit_that_any_gateway_knows_counts() -> None:
    fleet = Fleet({PRODUCERS: 4})
    one, two = fleet.add("one"), fleet.add("two")
    for name in "abc":
        assert await one.attach(producer(name)) == "in"

    fleet.policies[PRODUCERS] = 2
    two.compile()
    assert await two.attach(producer("d")) == "out"
    assert await one.attach(producer("d")) == "out"
    decision = one.gate.decide(producer("d"), fleet.now_ns)
    await one.holder.turn()
    decision = one.gate.decide(producer("d"), fleet.now_ns)
    assert decision is not None
    assert "Current: 3, Limit: 3." in decision.text
    await fleet.wait(LEASE_NS)
    assert await one.attach(producer("d")) == "in"


async def test_a_raised_limit_holds_once_all_gateways_have_it() -> None:
    fleet = Fleet({PRODUCERS: 2})
    one, two = fleet.add("one"), fleet.add("two")
    for gateway in fleet.gateways:
        assert await gateway.attach(producer(f"of {gateway.name}")) == "in"

    fleet.policies[PRODUCERS] = 3
    two.compile()
    assert await two.attach(producer("c")) == "out"
    one.compile()
    await fleet.wait(200 * MS)
    assert await two.attach(producer("c")) == "in"


async def test_the_task_answers_and_renews_by_itself() -> None:
    fleet = Fleet({PRODUCERS: 1})
    one, two = fleet.add("one"), fleet.add("two")

    async def answer(gateway: Gateway, name: str) -> str:
        await until_so(lambda: gateway.decide(producer(name)) != "asking")
        return gateway.decide(producer(name))

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(gateway.holder.run()) for gateway in fleet.gateways]
        assert await answer(one, "a") == "in"
        assert await answer(two, "b") != "in"
        for _ in range(4):
            fleet.now_ns += LEASE_NS // 2
            calls = one.store.held
            await until_so(lambda: one.store.held > calls)  # noqa: B023
        assert await answer(two, "c") != "in"
        for task in tasks:
            task.cancel()
