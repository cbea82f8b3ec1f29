"""Asks brokers for their own limits, for commands."""

import asyncio
import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import click

from sluicegate.broker import BaseDriver
from sluicegate.cli.opening import Desk, Opened
from sluicegate.config.models import BrokerConfig
from sluicegate.engine.hierarchy import Resolver
from sluicegate.features.drift.comparing import Difference, Entry, compare
from sluicegate.model.own_limits import OwnSettings, OwnSettingsError
from sluicegate.net.tls import OwnTlsFiles
from sluicegate.output import echo

_TIMEOUT_S = 120.0
"""For one broker. Each request has a time-out of its own, so this ends only what never ends."""
_LOG = "sluicegate"


def own_settings(driver: BaseDriver, config: BrokerConfig) -> OwnSettings:
    """Ask one broker.

    :raises OwnSettingsError: if it cannot be asked.
    """
    if not driver.tells_own_settings:
        remedy = "nothing to do: its driver has no own_settings()"
        raise OwnSettingsError(f"brokers of kind {config.system!r} do not tell their limits", remedy)
    with _logged_as_lines(driver.client_loggers):

        async def ask() -> OwnSettings:
            async with asyncio.timeout(_TIMEOUT_S):
                return await driver.own_settings(config, OwnTlsFiles(config))

        try:
            return asyncio.run(ask())
        except TimeoutError:
            raise OwnSettingsError(f"no answer within {_TIMEOUT_S:g} s", "try again") from None
        except OSError as error:  # a TLS file
            raise OwnSettingsError(str(error), "correct `tls` of the entry") from error


@contextmanager
def exiting_with(code: int) -> Iterator[None]:
    """Have errors exit with a code of the command's own."""
    try:
        yield
    except click.ClickException as error:
        error.exit_code = code  # type: ignore[misc] # its own is that of the class
        raise
    except SystemExit as error:
        if error.code:
            sys.exit(code)
        raise


def differences(
    opened: Opened, config: BrokerConfig, policies: Resolver | None = None
) -> tuple[list[Difference], OwnSettings]:
    """Ask one broker and compare what it says with policies.

    :param policies: those of file and store if None.
    :raises OwnSettingsError: if it cannot be asked.
    :raises click.ClickException: if the store cannot be read.
    """
    driver = opened.plugins.drivers[config.system]
    resolver = Desk(opened).resolver(config.name) if policies is None else policies
    own = own_settings(driver, config)
    return compare(own.settings, resolver, Entry.of(driver, config)), own


class _Lines(logging.Handler):
    """Prints log messages as lines on standard error."""

    def emit(self, record: logging.LogRecord) -> None:
        echo(f"note: {record.getMessage()}", err=True)


@contextmanager
def _logged_as_lines(silenced: Sequence[str]) -> Iterator[None]:
    """Print what the gateway's own clients log, escaped, for a block; client libraries log nothing."""
    own, others = logging.getLogger(_LOG), [logging.getLogger(name) for name in silenced]
    handler, propagates, levels = _Lines(logging.WARNING), own.propagate, [each.level for each in others]
    own.addHandler(handler)
    own.propagate = False
    for each in others:
        each.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        own.removeHandler(handler)
        own.propagate = propagates
        for each, level in zip(others, levels, strict=True):
            each.setLevel(level)
