"""What a call enforcer keeps of the connections of its clients."""

from tests.grpc.lab import MAP, P, create, engine, message, producers

from sluicegate_grpc.interceptors.enforcer import CallEnforcer


def test_a_producer_that_connects_again_and_again_leaves_little_behind() -> None:
    """No interceptor is told that a connection was closed."""
    with engine(max_producers_per_topic=1) as made:
        enforcer = CallEnforcer(made, MAP, 30, lists=False)
        policed = enforcer.policed(P + "Create")
        assert policed is not None
        for number in range(300):
            caller = enforcer.caller("ANONYMOUS", f"ipv4:10.0.0.1:{number}")
            waiting = enforcer.attach(policed, policed.read(create("p")), caller)
            try:
                next(waiting)
            except StopIteration as end:
                end.value.accepted(message({1: 7}))
        (place,) = enforcer.attachments.places
        assert (len(place.refs), len(place.callers)) == (100, 100)
        assert caller in place.callers
        assert producers(made) == 1
