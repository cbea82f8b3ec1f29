"""Scenarios, and their interleaved runs."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pulsar
from confluent_kafka import KafkaException

from benchmarks.harness.arms import Bench
from benchmarks.harness.processes import UnavailableError
from benchmarks.harness.samples import Results, Sample


@dataclass(frozen=True, slots=True)
class Scenario:
    """One thing that is measured on several arms."""

    name: str
    summary: str
    arms: Sequence[str]
    """Names of the arms, in the order in which they are run."""
    measure: Callable[[Bench, str, bool], dict[str, float]]
    """`(bench, arm, quick) -> values` of one round, by name."""
    rounds: int = 5
    cold_round: bool = True
    """Begin with a round that warms up every arm and does not count."""


def run(scenario: Scenario, bench: Bench, results: Results, rounds: int, *, quick: bool) -> None:
    """Run all arms in turn (A B C D A B C D ...), so that other load on the machine affects all alike.

    :param rounds: rounds that count; a cold one comes before them if the scenario wants it.
    """
    arms = list(scenario.arms)
    for number in range(0 if scenario.cold_round else 1, rounds + 1):
        label = f"{number}/{rounds}" if number else "cold"
        for name in tuple(arms):
            started = time.monotonic()
            try:
                values = scenario.measure(bench, name, quick)
            except UnavailableError as reason:
                arms.remove(name)
                results.skipped[f"{scenario.name}/{name}"] = str(reason)
                print(f"{scenario.name}: arm {name} skipped: {reason}", flush=True)
                continue
            except (RuntimeError, OSError, KafkaException, pulsar.PulsarException) as error:
                # The other arms continue; the exit code shows the failure.
                results.failed.append(f"{scenario.name}/{name} {label}: {error}")
                print(f"{scenario.name} {label} {name} FAILED: {error}", flush=True)
                continue
            results.samples.append(Sample(scenario.name, name, number, values))
            shown = "  ".join(f"{key} {value:.4g}" for key, value in values.items())
            print(f"{scenario.name} {label} {name} [{time.monotonic() - started:.0f} s]: {shown}", flush=True)
