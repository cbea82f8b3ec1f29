"""The work of `sluicegate report compare` on a synthetic run, in plain SQL of DuckDB: prints `rows=N`.

`python -m benchmarks.harness.report_sql RUN`. What grows with the log is done: deliveries counted message by
message, flows in slots of 100 ms by gates and by clients, the largest excess of any window, latencies,
answers over time, cost of decisions. It leaves out what the command does besides: the clocks, the judgement
of each refusal against an ideal bucket, verdicts, and the page.
"""

import sys
from pathlib import Path

from benchmarks.harness import synthetic

_START_US = int(synthetic.START.timestamp()) * 1_000_000
MESSAGES = """
    with told as (
      select system, door, topic, client as producer, sequence, min(scenario) as phase,
        bool_or(event = 'acknowledged') as stored,
        bool_or(event = 'refused') and not bool_or(event = 'acknowledged') as refused,
        max(case when messages = 1 then bytes end) as size
      from seen where role = 'producer' and event in ('acknowledged', 'refused', 'failed') group by all),
    came as (
      select system, door, topic, producer, sequence, subscription, client, time,
        case when messages = 1 then bytes end as size,
        row_number() over (partition by system, door, topic, producer, sequence, subscription
          order by time, client) as nth
      from seen where role = 'consumer' and event = 'received'),
    ordered as (
      select *, nth = 1 and sequence < max(case when nth = 1 then sequence end) over (
        partition by system, door, topic, subscription, client, producer order by time, sequence
        rows between unbounded preceding and 1 preceding) as late from came),
    got as (
      select system, door, topic, producer, sequence, subscription, count(*) as times, bool_or(late) as late,
        max(size) filter (nth = 1) as got_size
      from ordered group by all),
    subscribed as (
      select distinct system, door, topic, subscription from seen
      where role = 'consumer' and event in ('received', 'attached'))"""
"""What producers were `told` of each message, how often each subscription `got` it, and who `subscribed`; the
tests' own check in SQL begins with it too."""
_DELIVERY = f"""
    {MESSAGES}
    select told.system, told.door, told.topic, told.phase, subscription, count(*) filter (stored),
      count(times), count(*) filter (stored and times is null), sum(times - 1), count(*) filter (late),
      count(*) filter (size <> got_size), count(*) filter (refused and times > 0)
    from told join subscribed using (system, door, topic)
    left join got using (system, door, topic, producer, sequence, subscription) group by all"""
_FLOWS = f"""
    create temp table flows as
    select system, door, topic, 'log' as source, client, epoch_us(time) - {_START_US} as at_us, messages,
      action = 'allow' as passed, action <> 'allow' as limited from decided
    union all
    select system, door, topic, 'clients', client, epoch_us(time) - {_START_US}, messages,
      event = 'acknowledged', event = 'refused' from seen
    where role = 'producer' and event in ('sent', 'acknowledged', 'refused')"""
_SLOTS = """
    create temp table slots as
    select system, door, topic, source, client, at_us // 100000 as slot, count(*) as rows,
      sum(messages) filter (passed) as admitted, sum(messages) filter (limited) as refused,
      min(at_us) filter (passed) as first_us, max(at_us) filter (passed) as last_us,
      min(at_us) filter (limited) as first_limited_us, max(at_us) filter (limited) as last_limited_us
    from flows group by all"""
_SECONDS = """
    select system, door, topic, source, slot // 10, sum(admitted), sum(refused), sum(rows)
    from slots group by all"""
_JAIN = """
    select system, door, topic, source, sum(a) * sum(a) / (count(*) * sum(a * a))
    from (select system, door, topic, source, client, sum(admitted)::double as a from slots group by all)
    group by all"""
_OVERSHOOT = f"""
    with x as (
      select system, door, topic, source, at_us, messages,
        sum(messages) over w - {synthetic.RATE} * at_us / 1e6 as x from flows where passed
      window w as (partition by system, door, topic, source order by at_us rows unbounded preceding)),
    y as (
      select system, door, topic, source, x - min(x - messages) over w as rise from x
      window w as (partition by system, door, topic, source order by at_us rows unbounded preceding))
    select system, door, topic, source, max(rise) from y group by all"""
_LATENCIES = """
    select system, door, scenario, topic, count(*), approx_quantile(latency_ns, [0.5, 0.9, 0.99, 0.999]),
      max(latency_ns) from seen where event = 'acknowledged' group by all"""
_ANSWERS = """
    select system, door, date_trunc('second', time), approx_quantile(latency_ns, 0.5), max(latency_ns)
    from seen where event = 'acknowledged' group by all"""
_COSTS = """
    select system, door, approx_quantile(decision_cost, [0.5, 0.9, 0.99, 0.999]) from decided group by all"""
_QUERIES = (_DELIVERY, _SECONDS, _JAIN, _OVERSHOOT, _LATENCIES, _ANSWERS, _COSTS)


def main(run: Path) -> None:
    """Answer all queries."""
    import duckdb

    connection = duckdb.connect()
    for name, folder in (("decided", "decisions"), ("seen", "observations")):
        files = f"{run}/{folder}/**/*.parquet"
        connection.execute(f"create view {name} as select * from read_parquet('{files}')")
    for made in (_FLOWS, _SLOTS):
        connection.execute(made)
    print(f"rows={sum(len(connection.sql(query).fetchall()) for query in _QUERIES)}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
