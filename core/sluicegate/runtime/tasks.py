"""Runs the periodic tasks of plugins; one that fails is counted, logged and run again."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from math import isfinite
from threading import Event, Thread
from time import monotonic_ns

from sluicegate.engine.faults import CAUGHT, error_text, shown
from sluicegate.engine.plugin_metrics import Gauge, Metrics
from sluicegate.engine.task import Task
from sluicegate.pacing.log_throttle import LineLimiter
from sluicegate.runtime.shared_runs import SharedRuns, TurnsElsewhere

log = logging.getLogger(__name__)

LEAST_LIMIT_S = 5.0
"""Longest time for a run, or three intervals if these are longer."""
FIRST_RUNS_S = 5.0
"""Longest time that clients are kept waiting for the first run of all tasks."""
_INTERVALS = 3
_LEAST_INTERVAL_S = 0.01
_FALLBACK_INTERVAL_S = 10.0
_LONGEST_SLEEP_S = 1.0
"""How often the interval is read while a task waits."""
_BLOCKING_S = 2.0
_CANCELLING_S = 1.0
_STOPPING_S = 5.0


class _Supervised:
    """One task and how it went."""

    def __init__(self, plugin: str, task: Task) -> None:
        self.plugin = plugin
        self.task = task
        self.began_ns = 0
        """When the present run began, monotonic; 0 between runs."""
        self.limit_s = LEAST_LIMIT_S
        self.reported_ns = 0
        """Beginning of the last run that was logged as blocking."""
        self.hanging: asyncio.Future[None] | None = None
        """A run that did not end when it was cancelled."""
        self.shared_runs: SharedRuns | None = None
        """Runs it for all that share it; None if it is run here alone."""
        self.interval_s = 0.0
        self.later_s = 0.0
        """How much later than its interval says the next run is due."""

    async def run(self) -> None:
        """Run it once, or have another worker run it."""
        self.later_s = 0.0
        if self.shared_runs is None:
            await self.task.run()
        else:
            due_s = await self.shared_runs.run(self.limit_s, self.interval_s)
            self.later_s = due_s - self.interval_s


class TaskThread:
    """One thread with one event loop for all tasks of a broker.

    :param tasks: each with the name of its plugin.
    :param metrics: receives the results of runs, by task.
    :param failed: called with the plugin's name and what failed, in any thread.
    :param wall_ms: gives the time for metrics, in ms since 1970.
    :param broker: its name, which is the same at all gateways of a fleet.
    :param turns: what workers tell each other of shared tasks; None if nothing is shared.
    """

    def __init__(
        self,
        tasks: Sequence[tuple[str, Task]],
        metrics: Metrics,
        failed: Callable[[str, str], None],
        wall_ms: Callable[[], int],
        broker: str = "",
        turns: TurnsElsewhere | None = None,
    ) -> None:
        self._supervised = [_Supervised(plugin, task) for plugin, task in tasks]
        self._failed = failed
        self._wall_ms = wall_ms
        self._line_limiter = LineLimiter()
        labels = ("task",)
        self._attempt = metrics.gauge(
            "sluicegate_task_last_attempt_timestamp_seconds", "When a task was last begun.", labels
        )
        self._success = metrics.gauge(
            "sluicegate_task_last_success_timestamp_seconds", "When a task last succeeded.", labels
        )
        self._duration = metrics.gauge(
            "sluicegate_task_duration_seconds", "How long the last run of a task took.", labels
        )
        self._failures = metrics.counter(
            "sluicegate_task_failures", "Runs of a task that raised or took too long.", labels
        )
        for supervised in self._supervised:
            self._failures.inc(0, supervised.task.name)
        if turns is not None:
            self._share(broker, turns, metrics)
        self._first = Event()
        self._waiting = {supervised.task.name for supervised in self._supervised}
        self._began = Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._problem: OSError | None = None
        """Why the thread has no event loop."""
        self._ending: asyncio.Event | None = None
        self._thread = Thread(target=self._run, name="sluicegate-tasks", daemon=True)

    def _share(self, broker: str, turns: TurnsElsewhere, metrics: Metrics) -> None:
        for supervised in self._supervised:
            task, shared = supervised.task, supervised.task.shared
            if shared is not None:
                leads = metrics.gauge(
                    "sluicegate_task_leads", "1 if this gateway runs a shared task for all.", ("task",)
                )
                leads.set(0, task.name)
                supervised.shared_runs = SharedRuns(
                    task,
                    shared,
                    f"{broker}|{task.name}",
                    turns,
                    partial(_show, leads, task.name),
                )

    def start(self) -> None:
        """Start the thread and the first run of each task.

        :raises OSError: if there are no descriptors for its event loop.
        """
        self._thread.start()
        self._began.wait()
        if self._problem is not None:
            raise self._problem

    def wait_first(self, timeout_s: float = FIRST_RUNS_S) -> bool:
        """Wait for the first run of all tasks, whether it succeeds or not; False if that takes too long."""
        return self._first.wait(timeout_s)

    def stop(self) -> None:
        """Cancel running tasks, and end the thread; idempotent."""
        loop, ending = self._loop, self._ending
        if loop is None or ending is None or not self._thread.is_alive():
            return
        try:
            loop.call_soon_threadsafe(ending.set)
        except RuntimeError:  # it ended just now
            return
        self._thread.join(_STOPPING_S)
        if self._thread.is_alive():
            log.warning("a task blocks the thread of all tasks, which keeps running")

    def watch(self, now_ns: int) -> None:
        """Log a task that keeps all others from running, which only another thread can see.

        :param now_ns: monotonic time.
        """
        for supervised in self._supervised:
            began_ns = supervised.began_ns  # read once, as the tasks' thread sets it to 0 between runs
            took_s = (now_ns - began_ns) / 1e9
            if began_ns and took_s > supervised.limit_s + _BLOCKING_S and supervised.reported_ns != began_ns:
                supervised.reported_ns = began_ns
                self._fail(supervised, f"blocks the thread of all tasks for {took_s:.0f} s", None)

    # -- in the thread --------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            with asyncio.Runner() as runner:
                runner.get_loop()  # if this fails, no coroutine is left without an await
                runner.run(self._main())
        except OSError as error:
            if self._loop is not None:
                raise
            self._problem = error
        finally:
            self._began.set()

    async def _main(self) -> None:
        self._loop = loop = asyncio.get_running_loop()
        self._ending = asyncio.Event()
        self._began.set()
        running = [loop.create_task(self._supervise(each)) for each in self._supervised]
        await self._ending.wait()
        for task in running:
            task.cancel()
        await asyncio.wait(running, timeout=_CANCELLING_S)

    async def _supervise(self, supervised: _Supervised) -> None:
        while True:
            began_ns = monotonic_ns()
            await self._run_once(supervised, began_ns)
            self._waiting.discard(supervised.task.name)
            if not self._waiting:
                self._first.set()
            await self._until_due(supervised, began_ns)

    async def _until_due(self, supervised: _Supervised, began_ns: int) -> None:
        left_s = 0.0
        while left_s >= 0:
            await asyncio.sleep(min(left_s, _LONGEST_SLEEP_S))
            due_s = self._interval_s(supervised) + supervised.later_s
            left_s = due_s - (monotonic_ns() - began_ns) / 1e9

    def _interval_s(self, supervised: _Supervised) -> float:
        try:
            interval_ms = supervised.task.interval_ms()
            if not (isinstance(interval_ms, int | float) and isfinite(interval_ms)):
                raise TypeError(f"it is {shown(interval_ms)}, expected milliseconds")
            return max(_LEAST_INTERVAL_S, interval_ms / 1000)
        except CAUGHT as error:
            self._fail(supervised, f"interval: {error_text(error)}", error)
            return _FALLBACK_INTERVAL_S

    async def _run_once(self, supervised: _Supervised, began_ns: int) -> None:
        name = supervised.task.name
        self._attempt.set(self._wall_ms() / 1000, name)
        supervised.interval_s = self._interval_s(supervised)
        supervised.limit_s = max(LEAST_LIMIT_S, _INTERVALS * supervised.interval_s)
        supervised.began_ns = began_ns
        try:
            await self._bounded(supervised)
        except Exception as error:  # noqa: BLE001 - whatever a plugin raises
            self._fail(supervised, error_text(error), error)
        else:
            self._success.set(self._wall_ms() / 1000, name)
        finally:
            supervised.began_ns = 0
            self._duration.set((monotonic_ns() - began_ns) / 1e9, name)

    async def _bounded(self, supervised: _Supervised) -> None:
        """Run a task once, within its time.

        :raises Exception: whatever it raised; TimeoutError if it took too long.
        """
        if supervised.hanging is not None and not supervised.hanging.done():
            raise TimeoutError("an earlier run was cancelled and still runs")
        run = asyncio.ensure_future(_guarded(supervised.run))
        # Not `wait_for`: it never returns if the task ignores its cancellation.
        try:
            done, _ = await asyncio.wait({run}, timeout=supervised.limit_s)
        except asyncio.CancelledError:
            run.cancel()  # `wait` leaves it running
            raise
        if not done:
            run.cancel()
            await asyncio.wait({run}, timeout=_CANCELLING_S)
            supervised.hanging = run
            raise TimeoutError(f"took longer than {supervised.limit_s:g} s")
        if run.cancelled():
            raise RuntimeError("it cancelled itself")
        error = run.exception()
        if error is not None and not isinstance(error, Exception):
            raise RuntimeError(f"raised {error!r}") from error
        run.result()

    def _fail(self, supervised: _Supervised, text: str, error: BaseException | None) -> None:
        name = supervised.task.name
        self._failures.inc(1, name)
        left_out = self._line_limiter.passes((name, text), monotonic_ns())
        if left_out is not None:
            log.error(
                "task %s of plugin %s failed: %s",
                name,
                supervised.plugin,
                text,
                exc_info=error,
                extra={"left_out": left_out},
            )
        self._failed(supervised.plugin, f"task {name}: {text}")


def _show(gauge: Gauge, task: str, leads: bool) -> None:
    gauge.set(leads, task)


async def _guarded(run: Callable[[], Awaitable[None]]) -> None:
    try:
        await run()
    except (SystemExit, KeyboardInterrupt) as error:  # would end the thread with all other tasks
        raise RuntimeError(f"raised {error!r}") from error
