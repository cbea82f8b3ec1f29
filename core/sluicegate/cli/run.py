"""`sluicegate run`."""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from math import isfinite
from typing import TYPE_CHECKING, Any

import click

from sluicegate.cli.findings import file_findings, policy_warnings
from sluicegate.cli.group import give_up_output
from sluicegate.cli.opening import Opened, open_file, refuse
from sluicegate.cli.options import config_file
from sluicegate.cli.successor import TAKE_OVER, Successor
from sluicegate.config.errors import Finding, by_location
from sluicegate.config.load import Reading
from sluicegate.config.port_conflicts import unserved
from sluicegate.output import echo

log = logging.getLogger(__name__)

if TYPE_CHECKING:
    from sluicegate.admin.own_note import OwnNote
    from sluicegate.metrics.http import AdminServer
    from sluicegate.net.listening.handover import Offered
    from sluicegate.net.listening.sockets import Inherited
    from sluicegate.net.listening.succession import Succession
    from sluicegate.processes.child import WorkerProcess
    from sluicegate.processes.supervisor import Supervisor


@click.command()
@config_file
@click.option(
    "--drain-timeout",
    type=click.FloatRange(min=0),
    callback=lambda context, option, value: _finite(value),
    metavar="SECONDS",
    help="Longest time for held requests to finish after SIGTERM; the default is the longest max_hold and "
    "2 s.",
)
@click.option(
    TAKE_OVER,
    is_flag=True,
    help="Replace the running gateway with the same state_dir: it drains once this one accepts clients, "
    "and no client is refused meanwhile. If none is running, start as usual.",
)
def run(file: str, drain_timeout: float | None, take_over: bool) -> None:
    """Run the gateway for the brokers in the file, until SIGTERM or Ctrl-C.

    A line that starts with `sluicegate ready:` is printed once clients are accepted. It lists brokers that
    cannot be reached; the gateway keeps trying to reach them. Policies are reloaded when the file or the
    store changes, and on SIGHUP; if they have errors, the last good ones stay in effect. Variables that start
    with SLUICEGATE__ override the file. On SIGTERM the gateway accepts no more clients and finishes held
    requests; a second SIGTERM ends it at once. SIGUSR2 starts the same command line again with --take-over,
    so that the installed version replaces this gateway.
    """
    for number in (signal.SIGHUP, signal.SIGUSR2):
        signal.signal(number, _disregard)
    opened = open_file(file, os.environ)
    warnings = _usable(file, opened)
    import uvloop

    from sluicegate.net.limits import raise_descriptor_limit
    from sluicegate.runtime import logs
    from sluicegate.runtime.unraisable import log_unraisable

    raise_descriptor_limit()
    settings = opened.loaded.config.log
    logs.set_up(
        settings.level,
        settings.format,
        repeats=settings.repeats,
        repeat_window_ms=settings.repeat_window,
    )
    for warning in warnings:
        log.warning("%s", warning.in_a_line())
    log_unraisable()
    sys.exit(uvloop.run(_serve(file, opened, drain_timeout, take_over=take_over)))


def _finite(seconds: float | None) -> float | None:
    if seconds is not None and not isfinite(seconds):
        raise click.BadParameter(f"{seconds} is no time; write a number of seconds, such as 86400")
    return seconds


def _disregard(*_: object) -> None:
    """Handle a signal that comes before it can be obeyed. Unlike SIG_IGN no child process inherits it."""


def _usable(file: str, opened: Opened) -> list[Finding]:
    """Check the entries, and the files that the configuration refers to; exit if one cannot be used.

    An expired certificate is only a warning: a fleet must be able to restart before it is renewed.

    :return: warnings.
    """
    loaded = opened.loaded
    files = file_findings(Reading.of(loaded), outdated_is="warning")
    findings = by_location([*files, *unserved(loaded.root, loaded.config.brokers)])
    if errors := [finding for finding in findings if finding.severity == "error"]:
        refuse(file, errors)
    warnings = by_location([*loaded.warnings, *policy_warnings(opened), *findings])
    return [finding for finding in warnings if finding.severity == "warning"]


async def _serve(file: str, opened: Opened, drain_s: float | None, *, take_over: bool) -> int:
    from sluicegate.net.listening.succession import Succession
    from sluicegate.processes.child import WorkerFailedError
    from sluicegate.runtime.plugins import PluginError
    from sluicegate.store import StoreError

    succession = None
    try:
        succession = Succession(opened.loaded.config.state_dir, replace=take_over)
        own = succession.own()
        supervisor, admin, note = _open(file, opened, drain_s, succession, own)
    except (StoreError, PluginError, OSError) as error:
        if succession is not None:
            succession.close()
        return _refused(error)
    is_admin_late = succession.replaces_supervisor  # until this gateway is ready, the previous one answers
    if not is_admin_late:
        admin.start()
    successor = Successor()
    tls = opened.loaded.config.admin.tls
    stopping = _obey_signals(supervisor, admin, successor)

    def ready() -> None:
        own.close()
        succession.begin(lambda: _listening(supervisor, admin), stopping.set)
        if is_admin_late:
            admin.start()
        note.leave(admin.address, "" if tls is None else tls.cert)
        _print(_ready(supervisor, admin))

    try:
        await _until_stopped(supervisor, stopping, ready)
    except WorkerFailedError as error:
        return _refused(error)
    finally:
        if not succession.is_replaced:
            note.remove()  # otherwise it is the successor's
        succession.close()  # another gateway may use the state_dir while this one drains
        if succession.is_replaced:
            await admin.stop()  # the successor's endpoint serves now
        await supervisor.end()
        await admin.stop()
        successor.close()
    return 0


def _open(
    file: str, opened: Opened, drain_s: float | None, succession: "Succession", own: "Inherited"
) -> "tuple[Supervisor, AdminServer, OwnNote]":
    """Open the store and the admin port; the note about this gateway is to be left once it serves."""
    from sluicegate.admin.access import scrape_guard
    from sluicegate.admin.own_note import OwnNote
    from sluicegate.admin.resources import admin_routes
    from sluicegate.metrics.http import AdminServer
    from sluicegate.net.tls import TlsFiles
    from sluicegate.processes.supervisor import Supervisor
    from sluicegate.runtime.policies_in_force import PolicyWatch

    config = opened.loaded.config
    watch = PolicyWatch(file, opened.loaded, opened.plugins)
    taken = succession.workers([broker.name for broker in config.brokers])
    supervisor = Supervisor(watch, drain_s, taken, own, succession.term)
    admin_config, note = config.admin, OwnNote(file, config.state_dir, os.environ)
    routes = admin_routes(supervisor, note.key, admin_config.callers)
    guard = scrape_guard(admin_config.callers)
    tls = TlsFiles.of_clients(admin_config.tls, ("admin", "tls")) if admin_config.tls is not None else None
    admin = AdminServer(
        supervisor, admin_config.host, admin_config.port, own, admin_config.allowed_hosts, routes, guard, tls
    )
    return supervisor, admin, note


async def _until_stopped(
    supervisor: "Supervisor", stopping: asyncio.Event, ready: Callable[[], None]
) -> None:
    """Start the workers and wait for a stop; a stop during the start cancels it."""
    from sluicegate.processes.child import WorkerFailedError

    starting = asyncio.ensure_future(supervisor.start())
    waiting = asyncio.ensure_future(stopping.wait())
    await asyncio.wait((starting, waiting), return_when=asyncio.FIRST_COMPLETED)
    try:
        if starting.done():
            await starting
            ready()
            await waiting
    finally:
        starting.cancel()
        with suppress(asyncio.CancelledError, WorkerFailedError):
            await starting


def _listening(supervisor: "Supervisor", admin: "AdminServer") -> "Offered | None":
    """The listeners that a successor takes over; None while the gateway is stopping."""
    listening = supervisor.listening()
    return listening and [("", admin.name, admin.bound), *listening]


def _ready(supervisor: "Supervisor", admin: "AdminServer") -> str:
    # The workers of a broker listen on the same sockets.
    of_brokers = {worker.broker: worker for worker in supervisor.workers}
    addresses = ", ".join(_address(worker, supervisor.brokers()) for worker in of_brokers.values())
    sites = "".join(f"; web of {site.broker} on {site.url}" for site in supervisor.sites)
    return f"sluicegate ready: {addresses}; admin on {admin.url}{sites}"


def _print(line: str) -> None:
    """Print a line; a full disk or a closed pipe does not end a gateway that serves."""
    try:
        echo(line)
    except OSError as error:
        give_up_output()
        log.warning("cannot write to standard output (%s): %s", error.strerror, line)


def _obey_signals(supervisor: "Supervisor", admin: "AdminServer", successor: Successor) -> asyncio.Event:
    """Install signal handlers that reload the file, start the next version and stop the gateway.

    A second stop signal kills workers that still drain.

    :return: an event that is set when the gateway must stop.
    """
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()

    def stop() -> None:
        if stopping.is_set():
            supervisor.kill()
        stopping.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)

    def reload() -> None:
        supervisor.reload()
        admin.renew_tls()

    loop.add_signal_handler(signal.SIGHUP, reload)
    loop.add_signal_handler(signal.SIGUSR2, successor.start)
    return stopping


def _address(worker: "WorkerProcess", brokers: Mapping[str, Mapping[str, Any]]) -> str:
    """The address for clients of a broker, and why the broker cannot be reached, if so."""
    host, port = worker.addresses.get("bootstrap") or next(iter(worker.addresses.values()))
    state = brokers[worker.broker]
    trouble = "" if state["up"] else f" (broker not reachable: {state['reason']})"
    return f"{worker.broker} on {host}:{port}{trouble}"


def _refused(error: Exception) -> int:
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    echo(f"error: {text}", err=True)
    return 1
