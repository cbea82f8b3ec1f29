"""The effective policies from file and store, reloaded on changes; invalid ones keep the last good ones."""

import logging
import os
import socket
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from math import inf
from pathlib import Path
from time import monotonic_ns

from sluicegate.broker import UNIQUE_FACT
from sluicegate.config.errors import ConfigErrors
from sluicegate.config.files import tls_findings, tls_sections
from sluicegate.config.load import Loaded, load
from sluicegate.config.models import BrokerConfig
from sluicegate.model import PolicyLayer, PolicySet, PolicyValue, TopicName, version_text
from sluicegate.pacing.backoff import Backoff
from sluicegate.pacing.log_throttle import LineLimiter
from sluicegate.runtime.changing import Wanted, change_store
from sluicegate.runtime.file_history import FileHistory
from sluicegate.runtime.plugins import Plugins
from sluicegate.store import Author, Key, PolicyStore, Revision, SqliteStore, StoreError
from sluicegate.store.local_copy import NAME as COPY_NAME
from sluicegate.store.local_copy import LocalCopy
from sluicegate.store.policy_store import StoreConflictError, changes_between, values_of
from sluicegate.store.standby import StandbyStore, is_remote

log = logging.getLogger(__name__)

_LIVE = frozenset({"observe_only", "exempt"})
"""Keys of a broker's entry that apply without a restart."""
_FileMark = tuple[int, ...]
"""Identifies a file's state: mtime, ctime, size, inode; empty if the file is missing."""
_TLS_RETRY_NS = 5_000_000_000
"""How often a file is read again that names TLS files which cannot be used."""
_FIRST_RETRY_NS = 250_000_000
_LONGEST_RETRY_NS = 5_000_000_000
_NS = 1_000_000_000
_FACTS_LIMIT = 10_000
"""Facts that may wait for a store that cannot be written."""


class PolicyWatch:
    """Reads file and store; its methods block and belong to one thread.

    :param path: the configuration file.
    :param loaded: its content at the start.
    :param plugins: what it is read with.
    :param environ: environment that overrides it.
    :raises StoreError: if the store cannot be read. A remote store that does not answer is replaced by its
        local copy, if there is one.
    :raises PluginError: if no plugin opens the store.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        loaded: Loaded,
        plugins: Plugins,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self.loaded = loaded
        self.changes = 0
        """Incremented with each applied change."""
        self.successful = True
        """False while file or store are broken, and the last good policies are in force."""
        self.failures = 0
        self._path = os.fspath(path)
        self.plugins = plugins
        self._environ = environ
        self._store = _open_store(loaded, plugins)
        self._answered_ns = monotonic_ns()
        self._store_version, self._layers = self._store.layers()
        self.version = loaded.version(self._layers)
        """Version of the policies in force, which all brokers share."""
        self._store_openings = 0
        """How often the store's file was opened before: another file may have the same version."""
        self._running = loaded.config
        """What the processes were started with, whatever the file says since."""
        self._mark: _FileMark | None = None
        """None until the first check, as the file may have changed since it was loaded."""
        self._again_ns: float = inf
        """When the file is read although it looks unchanged."""
        self._file_problem: str | None = None
        """Why the file cannot be used; None if it can."""
        self._store_broken = False
        self._unkept: dict[str, str] = {}
        """Facts that the store did not take yet, by key."""
        self._writing = Backoff(_FIRST_RETRY_NS, _LONGEST_RETRY_NS)
        self.facts_lost = 0
        """Facts that were dropped because too many waited."""
        self.facts_conflicting = 0
        """Facts for which another gateway has stored a different value."""
        self._line_limiter = LineLimiter()
        self._file_history = FileHistory(loaded.config.state_dir, self._path)
        self._file_values: dict[Key, PolicyValue] | None = None
        self._file_unnoted = True
        """Whether the history may lack what the file says now."""

    def policies(self, broker: str) -> PolicySet:
        """The policies in force for a broker."""
        return self.loaded.policies(self._layers, self.version, broker)

    def check(self, force: bool = False) -> bool:
        """Check whether file or store changed, and apply the changes.

        :param force: read file and store even if they look unchanged.
        :return: True if there are other policies now.
        """
        self._note_file()  # what was loaded at the start, before a later change takes its place
        before = self.changes
        self.changes += self._check_file(force)
        self.changes += self._check_store(force)
        if self.changes != before:
            self.version = self.loaded.version(self._layers)
        self.successful = self._file_problem is None and not self._store_broken
        self._write_facts()
        self._note_file()
        return self.changes != before

    def facts(self, broker: str) -> dict[str, str]:
        """The facts kept for a broker; none while the store is broken."""
        prefix = f"{broker}/"
        try:
            facts = self._store.facts(prefix)
        except StoreError as error:
            self._broken("facts", f"facts cannot be read: {error}")
            return {}
        return {key.removeprefix(prefix): value for key, value in facts.items()}

    @property
    def copy_in_use(self) -> bool:
        """Whether the local copy replaces a store that has not answered since the start."""
        return isinstance(self._store, StandbyStore) and self._store.copy_age_s is not None

    @property
    def store_age_s(self) -> float:
        """Time since the known state of the store was up to date."""
        age_s = self._store.copy_age_s if isinstance(self._store, StandbyStore) else None
        return (monotonic_ns() - self._answered_ns) / _NS if age_s is None else age_s

    @property
    def facts_waiting(self) -> int:
        """Facts that the store has not accepted yet."""
        return len(self._unkept)

    def keep_fact(self, broker: str, key: str, value: str) -> None:
        """Keep a fact for a broker; writing is retried while the store is broken."""
        self._unkept[f"{broker}/{key}"] = value
        if len(self._unkept) > _FACTS_LIMIT:
            del self._unkept[next(iter(self._unkept))]
            self.facts_lost += 1
        self._write_facts()

    def _write_facts(self) -> None:
        now_ns = monotonic_ns()
        if not self._unkept or self._writing.wait_ns(now_ns):
            return
        kept = 0
        try:
            for key, value in tuple(self._unkept.items()):
                self._write_fact(key, value)
                # Only now, as the store may refuse each of them.
                del self._unkept[key]
                kept += 1
        except StoreError as error:
            if not self._writing.failures:
                log.error("store cannot be written, node addresses wait in memory until it can: %s", error)
            self._writing.failed(now_ns)
            return
        if self._writing.failures:
            self._writing.reset()
            log.warning("store is written again: %d facts kept, %d lost", kept, self.facts_lost)

    def _write_fact(self, key: str, value: str) -> None:
        broker, _, name = key.partition("/")
        if not value or not name.startswith(UNIQUE_FACT):
            self._store.put_fact(key, value)
            return
        kept = self._store.claim_fact(key, value)
        if kept != value:
            self.facts_conflicting += 1
            log.error(
                "broker %r: the port of %s belongs to %s at another gateway of this store: restart this "
                "gateway to take over the store's ports",
                *(broker, value, kept),
            )

    def change(self, wanted: Sequence[Wanted], author: Author, seen: int | None = None) -> int:
        """Set and unset policies in the store as one change; `check` then finds it.

        :param seen: version of the policies that the author has seen; None for any.
        :return: the number of the revision.
        :raises PolicyRefusedError: if a value is invalid; nothing is changed then.
        :raises PolicyUnavailableError: if the store cannot be written.
        :raises StoreConflictError: if other policies are in force than were seen.
        """
        expected = None
        if seen is not None:
            self.check()
            if seen != self.version:
                now, before = version_text(self.version), version_text(seen)
                message = f"the policies have version {now} now, not {before}: somebody else has changed them"
                raise StoreConflictError(message, "look at them again, then repeat the change")
            # Whatever comes after this look, the store itself refuses.
            expected = self._store_version
        return change_store(self._store, self.loaded, wanted, author, expected, self.name_of)

    def history(self, limit: int, before: int | None = None) -> list[Revision]:
        """The last revisions, newest first.

        :param before: only those with a lower number.
        :raises StoreError: if the store cannot be read.
        """
        return self._store.history(limit, before)

    @property
    def store_layers(self) -> tuple[PolicyLayer, ...]:
        """The policies of the store, as last read."""
        return self._layers

    @property
    def file_values(self) -> Mapping[Key, PolicyValue]:
        """What the file sets."""
        if self._file_values is None:
            self._file_values = values_of(self.loaded.policy_layers)
        return self._file_values

    def name_of(self, broker: BrokerConfig, topic: str) -> TopicName:
        """The name of a topic, as the driver of a broker reads it."""
        return self.plugins.drivers[broker.system].name_of(topic, broker)

    def close(self) -> None:
        """Close the store after offering it the waiting facts."""
        self._writing.reset()
        self._write_facts()
        self._store.close()

    def _note_file(self) -> None:
        """Note in the history what changed in the file, once."""
        if not self._file_unnoted or self.copy_in_use:
            return
        self._file_unnoted = False
        kept, values = self._file_history.kept(), self.file_values
        changes = [] if kept is None else changes_between(kept, values)
        author = Author(f"{os.path.basename(self._path)} on {socket.gethostname()}")
        try:
            if changes:
                self._store.record(author, changes, version_text(self.version))
            if changes or kept is None:
                # After the history has them: what it could not take is noted after the next start.
                self._file_history.keep(values)
        except (StoreError, OSError) as error:
            log.warning("the history lacks %d changes of %s: %s", len(changes), self._path, error)

    def _file_mark(self) -> _FileMark:
        try:
            status = os.stat(self._path)
        except OSError:
            return ()
        return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino

    def _check_file(self, force: bool) -> bool:
        # Before the file is read: a change during the reading makes another mark for the next check.
        mark, now_ns = self._file_mark(), monotonic_ns()
        is_new = force or mark != self._mark
        if not is_new and now_ns < self._again_ns:
            return False
        # A further change within one tick of the kernel's clock may leave the mark as it is.
        self._mark, self._again_ns = mark, now_ns + _NS if is_new else inf
        try:
            loaded = load(
                self._path,
                self.plugins.policy_models,
                self.plugins.broker_models,
                self._environ,
                known=self.loaded,
            )
            self._refuse_removed(loaded)
            self._refuse_unusable(loaded)
        except (ConfigErrors, ValueError) as error:
            text = error.render() if isinstance(error, ConfigErrors) else str(error)
            if is_new or text != self._file_problem:
                self.failures += 1
                log.error("%s cannot be used, the last good policies stay in force\n%s", self._path, text)
            self._file_problem = text
            return False
        if self._file_problem is not None:
            log.info("%s can be used again", self._path)
            self._file_problem = None
        if loaded.text_digest == self.loaded.text_digest:
            return False
        self._warn_of_restart(loaded)
        self.loaded, self._file_values = loaded, None
        self._file_unnoted = True
        return True

    def _refuse_removed(self, loaded: Loaded) -> None:
        names = {broker.name for broker in loaded.config.brokers}
        for broker in self._running.brokers:
            if broker.name not in names:
                raise ValueError(
                    f"broker {broker.name!r} is missing; to remove a broker, restart the gateway"
                )

    def _refuse_unusable(self, loaded: Loaded) -> None:
        """Check newly named TLS files; those in force may be about to be renewed."""
        if loaded.config.brokers == self.loaded.config.brokers:
            return
        known = {each.section for each in tls_sections(enumerate(self.loaded.config.brokers))}
        named = [each for each in tls_sections(enumerate(loaded.config.brokers)) if each.section not in known]
        findings = list(tls_findings(loaded.root, named, datetime.now(UTC)))
        if errors := [finding for finding in findings if finding.severity == "error"]:
            self._again_ns = monotonic_ns() + _TLS_RETRY_NS  # what appears there does not change this file
            raise ConfigErrors(errors)
        for warning in findings:
            log.warning("%s", warning.in_a_line())

    def _warn_of_restart(self, loaded: Loaded) -> None:
        before, after = self._running, loaded.config
        changed = [
            name
            for name in type(before).model_fields
            if name not in ("brokers", "policies") and getattr(before, name) != getattr(after, name)
        ]
        old = {broker.name: broker for broker in before.brokers}
        for broker in after.brokers:
            if broker.name not in old:
                changed.append(f"brokers.{broker.name}")
            else:
                changed += [f"brokers.{broker.name}.{name}" for name in _differing(old[broker.name], broker)]
        if changed:
            log.warning("restart the gateway to bring into force: %s", ", ".join(changed))

    def _check_store(self, force: bool) -> bool:
        try:
            same = self._store.version() == self._store_version  # this reopens a file that was replaced
            openings = self._store.openings if isinstance(self._store, SqliteStore) else 0
            self._answered_ns = monotonic_ns()
            if same and openings == self._store_openings and not (force or self._store_broken):
                return False
            version, layers = self._store.layers()
        except StoreError as error:
            if not self._store_broken:
                self.failures += 1
            self._store_broken = True
            self._broken("store", f"store cannot be read, the last good policies stay in force: {error}")
            return False
        if self._store_broken:
            log.info("store can be read again")
            self._store_broken = False
        changed = layers != self._layers
        self._store_version, self._store_openings, self._layers = version, openings, layers
        return changed

    def _broken(self, what: str, text: str) -> None:
        left_out = self._line_limiter.passes(what, monotonic_ns())
        if left_out is not None:
            log.error("%s", text)


def _open_store(loaded: Loaded, plugins: Plugins) -> PolicyStore:
    config = loaded.config
    open_store: partial[PolicyStore] = partial(plugins.open_store, config.store_url)
    if not is_remote(config.store_url):
        return open_store()
    return StandbyStore(open_store, LocalCopy(Path(config.state_dir) / COPY_NAME, config.store_url))


def _differing(before: BrokerConfig, after: BrokerConfig) -> list[str]:
    return [
        name
        for name in type(after).model_fields
        if name not in _LIVE and getattr(before, name, None) != getattr(after, name)
    ]
