"""Long runs of the session fuzzer: `python -m tests.fuzz kafka pulsar --frames 5000000`.

A finding is a line of JSON in the folder that `--findings` names; `--again SEED` plays one again.
"""

import argparse
import gc
import json
import logging
import multiprocessing
import os
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.fuzz.epoch import MEASURED, Epoch, MakeFront, measured_again
from tests.fuzz.link import LIMIT_NS, FoundError, Meter
from tests.fuzz.memory import check_memory
from tests.fuzz.protocols import PROTOCOLS

_EPOCH_FRAMES = 5_000
_WARM = 0.1
"""Share of a run after which memory is looked at for the first time."""
_TELL_S = 30
_MEMORY_EVERY = 50
"""Epochs after which one is played again with memory traced, which takes three times as long."""


@dataclass
class Run:
    """What a run has come to so far."""

    frames: int = 0
    damaged: int = 0
    reads: int = 0
    connections: int = 0
    findings: int = 0
    longest_ns: int = 0
    """The longest turn, measured several times where it was over the limit."""
    thread_ns: int = 0
    thread_bytes: int = 0
    """CPU time in threads, and the bytes of the requests that it was spent on."""
    most_held: int = 0
    most_kept: int = 0
    """Bytes that the product had allocated at the end of an epoch, of those that were looked at."""
    epochs: int = 0
    warm_rss: int = 0
    rss: int = 0
    cpu_s: float = 0.0
    closes: Counter[str] = field(default_factory=Counter)

    def line(self, name: str) -> str:
        """The figures in one line."""
        growth = (self.rss - self.warm_rss) / 2**20 if self.warm_rss else 0.0
        return (
            f"{name}: {self.frames:,} frames ({self.damaged:,} damaged), {self.connections:,} connections, "
            f"{self.reads:,} turns, {self.findings} findings, longest turn {self.longest_ns / 1e6:.1f} ms, "
            f"{self.thread_ns / 1e3 / max(1, self.thread_bytes):.2f} us a byte in threads, "
            f"most held {self.most_held / 2**20:.1f} MiB, "
            f"most kept {self.most_kept / 2**20:.1f} MiB, growth {growth:+.1f} MB, {self.cpu_s:.0f} CPU s"
        )


def rss_bytes() -> int:
    """Resident memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main() -> int:
    """Run, and tell; 1 if anything was found."""
    options = _options()
    logging.getLogger("sluicegate").setLevel(logging.CRITICAL)
    if os.environ.get("PYTHONHASHSEED") != "0":  # the order of sets, so that a seed says all
        os.environ["PYTHONHASHSEED"] = "0"
        path = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
        os.environ["PYTHONPATH"] = path
        os.execv(sys.executable, [sys.executable, "-m", "tests.fuzz", *sys.argv[1:]])
    findings = 0
    for protocol in options.protocols:
        options.protocol = protocol
        findings += _findings(options)
    return int(findings > 0)


def _findings(options: argparse.Namespace) -> int:
    """Run one protocol; how many findings it came to."""
    if options.again:
        return _play(PROTOCOLS[options.protocol], options.again, options.epoch, Run(), options)
    if options.processes == 1:
        return _run(options, 0).findings
    with multiprocessing.get_context("fork").Pool(options.processes) as pool:
        runs = pool.starmap(_run, [(options, part) for part in range(options.processes)])
    return sum(run.findings for run in runs)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument(
        "protocols", metavar="PROTOCOL", nargs="+", choices=PROTOCOLS, help="one after the other"
    )
    parser.add_argument("--frames", type=int, default=1_000_000, help="of each process and protocol")
    parser.add_argument("--epoch", type=int, default=_EPOCH_FRAMES, help="frames in the life of a front")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seed", default=str(time.time_ns()), help="the same one plays the same")
    parser.add_argument("--findings", type=Path, default=Path("build/fuzz"))
    parser.add_argument("--again", metavar="SEED", help="play one epoch, as a finding names it")
    return parser.parse_args()


def _run(options: argparse.Namespace, part: int) -> Run:
    run, make_front = Run(), PROTOCOLS[options.protocol]
    name = f"{options.protocol} seed {options.seed}/{part}"
    told = time.monotonic()
    for seed in _seeds(options.seed, part):
        if run.frames >= options.frames:
            break
        run.findings += _play(make_front, seed, options.epoch, run, options)
        if not run.warm_rss and run.frames >= _WARM * options.frames:
            gc.collect()
            run.warm_rss = rss_bytes()
        if time.monotonic() - told > _TELL_S:
            told = time.monotonic()
            _measure(run)
            print(run.line(name), flush=True)
    gc.collect()
    _measure(run)
    print(f"{run.line(name)}\nclosed: {dict(run.closes.most_common())}", flush=True)
    return run


def _measure(run: Run) -> None:
    run.rss, run.cpu_s = rss_bytes(), time.process_time()


def _seeds(seed: str, part: int) -> Iterator[str]:
    number = 0
    while True:
        yield f"{seed}/{part}/{number}"
        number += 1


def _play(make_front: MakeFront, seed: str, frames: int, run: Run, options: argparse.Namespace) -> int:
    """Play one epoch; how many findings it came to."""
    meter = Meter()
    epoch = Epoch(make_front, seed, frames, meter)
    findings = 0
    gc.collect(0)
    gc.disable()  # its pauses belong to no turn
    try:
        epoch.play()
    except Exception:  # noqa: BLE001 - whatever is raised is what is looked for
        findings += 1
        _tell(options, seed, meter, traceback.format_exc())
    finally:
        gc.enable()
    measured_again(make_front, seed, frames, meter.slow)
    for turn, slow in meter.slow.items():
        findings += 1
        what = f"turn {turn} took {slow.took_ns / 1e6:.1f} ms of CPU or more, {MEASURED} times: {slow.what}"
        _tell(options, seed, meter, what)
    if run.epochs % _MEMORY_EVERY == 0:
        findings += _check_memory(make_front, seed, frames, run, options)
    run.epochs += 1
    tally = epoch.tally
    run.frames += tally.frames
    run.damaged += tally.damaged
    run.connections += tally.connections
    run.reads += meter.turns
    run.most_held = max(run.most_held, tally.most_held)
    run.thread_ns += meter.thread_ns
    run.thread_bytes += meter.thread_bytes
    slow_ns = max((slow.took_ns for slow in meter.slow.values() if not slow.bytes_in_thread), default=0)
    run.longest_ns = max(run.longest_ns, slow_ns or min(meter.longest_ns, LIMIT_NS))
    run.closes.update(tally.closes)
    return findings


def _check_memory(
    make_front: MakeFront, seed: str, frames: int, run: Run, options: argparse.Namespace
) -> int:
    try:
        kept, _ = check_memory(make_front, seed, frames)
    except FoundError as error:
        if "bytes are kept" in str(error):
            _tell(options, seed, Meter(), str(error))
            return 1
    except Exception:  # noqa: BLE001 - it was told when it was first seen
        return 0
    else:
        run.most_kept = max(run.most_kept, kept)
    return 0


def _tell(options: argparse.Namespace, seed: str, meter: Meter, what: str) -> None:
    options.findings.mkdir(parents=True, exist_ok=True)
    found = {
        "protocol": options.protocol,
        "seed": seed,
        "epoch": options.epoch,
        "turn": meter.turns,
        "doing": meter.last,
        "what": what,
    }
    with (options.findings / f"{options.protocol}.jsonl").open("a") as file:
        file.write(json.dumps(found) + "\n")
    print(f"FOUND in {seed}, turn {meter.turns} ({meter.last}):\n{what}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
