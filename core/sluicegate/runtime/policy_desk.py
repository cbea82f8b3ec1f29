"""Policies for those who operate the gateway: what is set, what a change would do, history and undo.

`sluicegate policies` and the admin API alike use it; its answers are JSON values.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any

from sluicegate.broker import PolicyRefusedError
from sluicegate.config.fields import PolicyFields
from sluicegate.config.policy_document import document_text, read_document
from sluicegate.engine.hierarchy import Resolver
from sluicegate.model import PolicyLayer, PolicyValue, Setting, version_text
from sluicegate.runtime.changing import Wanted, planned
from sluicegate.runtime.compacting import log_directory
from sluicegate.runtime.hindsight import Compared, Hindsight
from sluicegate.runtime.policies_in_force import PolicyWatch
from sluicegate.runtime.rollout_desk import RolloutDesk
from sluicegate.runtime.rollouts import Rollouts
from sluicegate.store import Author, Change, Key, Revision
from sluicegate.store.policy_store import CEILING, changes_between, flattened, values_of

Live = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""Samples of topics by broker and name, as in the workers' snapshots."""
_ALL: Mapping[str, str] = {}
_MOST_TOPICS = 50
"""Topics that a plan lists."""
_COUNTED: Mapping[str, Callable[[Mapping[str, Any]], int]] = {
    "max_producers_per_topic": lambda sample: int(sample["producers"]),
    "max_consumers_per_topic": lambda sample: sum(sample["consumers"].values()),
    "max_subscriptions_per_topic": lambda sample: len(sample["consumers"]),
}
"""What is known of topics without such a limit."""


class UnknownRevisionError(PolicyRefusedError):
    """The history has no such revision."""


class PolicyDesk:
    """Reads and changes the policies of file and store; its methods block and belong to the watch's thread.

    :param watch: file and store.
    :param live: gives the last samples of the topics in use.
    :param rollouts: what the workers count of policies that are rolled out.
    """

    def __init__(
        self, watch: PolicyWatch, live: Callable[[], Live] = dict, rollouts: Rollouts | None = None
    ) -> None:
        self._watch = watch
        self.rollouts = RolloutDesk(
            watch, Rollouts(watch.loaded.config.rollout) if rollouts is None else rollouts
        )
        """The policies that are rolled out."""
        self._live = live

    @property
    def version(self) -> str:
        """Version of the policies in force."""
        return version_text(self._watch.version)

    @property
    def _fields(self) -> PolicyFields:
        return self._watch.loaded.fields

    def settings(
        self, wanted: Mapping[str, str] = _ALL, offset: int = 0, limit: int | None = None
    ) -> dict[str, Any]:
        """What file and store set.

        :param wanted: values by `broker`, `level`, `name`, `field` or `source`; other settings are left out.
        :param offset: how many of these to skip.
        :param limit: how many to return; None for all.
        :return: `version`; `total`, how many there are; and `settings`, each with `broker` (empty for all),
            `level`, `name`, `field`, `scope` (whose operations, empty for everybody's), `value`, `text`,
            `source`, `location` and `locked`.
        """
        layers = (*self._watch.loaded.policy_layers, *self._watch.store_layers)
        last = None if limit is None else offset + limit
        if wanted:
            settings = [each for each in flattened(layers) if _is_wanted(*each, wanted)]
            total, page = len(settings), settings[offset:last]
        else:
            total = sum(len(layer.settings) + len(layer.ceilings) for layer in layers)
            page = list(islice(flattened(layers), offset, last))
        rows = [self._row(key, setting) for key, setting in page]
        return {"version": version_text(self._watch.version), "total": total, "settings": rows}

    def plan(self, wanted: Sequence[Wanted]) -> tuple[dict[str, Any], Hindsight]:
        """What a change would do, without doing it.

        :return: `version` and `version_after`; `changes` in the store; `topics`, those in use whose policies
            would change, each with `broker`, `topic`, `field`, `before`, `after` and `use_text`, the use of
            the limit in the last second; `topics_changed`, how many there are, and `topics_known`, how many
            were looked at. Beside it, what estimates its effect on the last hour, for another thread.
        :raises PolicyRefusedError: if it cannot be done.
        """
        watch = self._watch
        before = watch.store_layers
        edits, after = planned(watch.loaded, before, wanted, watch.name_of)
        changes = changes_between(values_of(before), values_of(after))
        fields = {edit.key.field.removeprefix(CEILING) for edit in edits}
        compared, live = self._compared(after), self._live()
        topics, known = self._topics_changed(compared, live, fields)
        answer = {
            "version": version_text(watch.version),
            "version_after": version_text(watch.loaded.version(after)),
            "changes": [self._change(change) for change in changes],
            "topics": topics[:_MOST_TOPICS],
            "topics_changed": len({(row["broker"], row["topic"]) for row in topics}),
            "topics_known": known,
        }
        config = watch.loaded.config
        directory = log_directory(config) if config.decisions.enabled else None
        return answer, Hindsight(
            compared, frozenset(fields), self._fields, directory, _counts(compared, live, fields)
        )

    def change(self, wanted: Sequence[Wanted], author: Author, seen: str | None = None) -> dict[str, Any]:
        """Set and unset policies in the store.

        :param seen: version of the policies that the author has seen; None for any.
        :return: `revision`, the number in the history; and the `changes`.
        :raises PolicyRefusedError: if a value is invalid; nothing is changed then.
        :raises PolicyUnavailableError: if the store cannot be written.
        :raises StoreConflictError: if other policies are in force than were seen.
        """
        before = values_of(self._watch.store_layers)
        number = self._watch.change(wanted, author, None if seen is None else int(seen, 16))
        self._watch.check()
        changes = changes_between(before, values_of(self._watch.store_layers))
        version = version_text(self._watch.version)
        return {"revision": number, "version": version, "changes": [self._change(each) for each in changes]}

    def carry_out(
        self, wanted: Sequence[Wanted], author: Author, seen: str | None = None, *, dry_run: bool
    ) -> tuple[dict[str, Any], Hindsight | None]:
        """Make a change, or only plan it; answers and errors are those of `change` and `plan`."""
        return self.plan(wanted) if dry_run else (self.change(wanted, author, seen), None)

    def document(self, text: str, name: str, *, prune: bool) -> list[Wanted]:
        """The changes that make the store agree with a document.

        :param text: of the document, YAML.
        :param name: what errors call it.
        :param prune: whether to remove what the document does not set.
        :raises ConfigErrors: if it has errors.
        """
        values = values_of(read_document(text, name, self._fields))
        known = values_of(self._watch.store_layers)
        wanted = [Wanted(key, value) for key, value in values.items() if known.get(key) != value]
        if prune:
            wanted += [Wanted(key, None) for key in known.keys() - values.keys()]
        return wanted

    def export(self) -> str:
        """The store's policies as a document."""
        return document_text(self._watch.store_layers, self._fields)

    def history(self, limit: int, before: int | None = None) -> list[dict[str, Any]]:
        """The last revisions of store and file, newest first.

        :param before: only those with a lower number.
        :return: each with `number`, `at`, `actor`, `reason`, `source`, `policies` (their version) and
            `changes`.
        :raises StoreError: if the store cannot be read.
        """
        return [self._revision(each) for each in self._watch.history(limit, before)]

    def undoing(self, number: int) -> list[Wanted]:
        """The changes that take back a revision of the store.

        :raises PolicyRefusedError: if there is no such revision, it changed the file, or what it set was
            changed again.
        """
        revisions = self._watch.history(1, number + 1)
        if not revisions or revisions[0].number != number:
            raise UnknownRevisionError(f"no revision {number}: `sluicegate policies history` lists them")
        [revision] = revisions
        if revision.is_of_file:
            raise PolicyRefusedError(
                f"revision {number} changed the configuration file: change it back there"
            )
        known = values_of(self._watch.store_layers)
        for change in revision.changes:
            if repr(known.get(change.key)) != repr(change.new):
                what = f"{change.key.field} of {change.key.target} was changed again after revision {number}"
                raise PolicyRefusedError(f"{what}: undo the later change first, or set it")
        return [Wanted(change.key, change.old) for change in revision.changes]

    # -- as JSON -----------------------------------------------------------------------------------

    def _row(self, key: Key, setting: Setting) -> dict[str, Any]:
        return {
            **_key_json(key),
            "value": setting.value,
            "text": self._text(key, setting.value),
            "source": setting.source.label,
            "location": setting.location,
            "locked": setting.locked,
        }

    def _change(self, change: Change) -> dict[str, Any]:
        return {
            **_key_json(change.key),
            "old": change.old,
            "new": change.new,
            "old_text": self._text(change.key, change.old),
            "new_text": self._text(change.key, change.new),
        }

    def _revision(self, revision: Revision) -> dict[str, Any]:
        return {
            "number": revision.number,
            "at": revision.at,
            **revision.author._asdict(),
            "source": "file" if revision.is_of_file else "store",
            "policies": revision.policies,
            "changes": [self._change(change) for change in revision.changes],
        }

    def _text(self, key: Key, value: PolicyValue | None) -> str:
        field, of_file = key.field.removeprefix(CEILING), self._watch.file_values.get(key)
        if value is None and of_file is not None:
            return f"{self._field_text(field, of_file)} of the file"
        return self._field_text(field, value)

    def _compared(self, after: tuple[PolicyLayer, ...]) -> dict[str, Compared]:
        """Each broker with the policies in force, and with other ones of the store."""
        watch, compared = self._watch, {}
        for config in watch.loaded.config.brokers:
            defaults = self._fields.defaults_with(config.policy_defaults)
            resolvers = (
                Resolver(watch.loaded.policies(layers, 0, config.name), defaults, self._fields.broker_only)
                for layers in (watch.store_layers, after)
            )
            compared[config.name] = Compared(config, partial(watch.name_of, config), *resolvers)
        return compared

    def _topics_changed(
        self, compared: Mapping[str, Compared], live: Live, fields: Iterable[str]
    ) -> tuple[list[dict[str, Any]], int]:
        """The topics in use whose fields would have other values, and how many were looked at."""
        rows, known = [], 0
        for broker, (_, name_of, old, new) in compared.items():
            for topic, sample in live.get(broker, {}).items():
                known += 1
                name = name_of(topic)
                values = old.resolve(name).values, new.resolve(name).values
                for field in fields:
                    was, will_be = (self._field_text(field, each.get(field)) for each in values)
                    if was != will_be:
                        row = {"broker": broker, "topic": topic, "field": field}
                        used = used_now(sample, field)
                        use_text = "" if used is None else self._field_text(field, used)
                        rows.append({**row, "before": was, "after": will_be, "use_text": use_text})
        return rows, known

    def _field_text(self, field: str, value: PolicyValue | None) -> str:
        return "not set" if value is None else self._fields.text(field, value)


def reason_of_undo(number: int, reason: str) -> str:
    """The reason that the history gives for an undo; `reason` if there is one."""
    return reason or f"undo revision {number}"


def _is_wanted(key: Key, setting: Setting, wanted: Mapping[str, str]) -> bool:
    shown = {**_key_json(key), "source": setting.source.label}
    return all(shown[name] == value for name, value in wanted.items())


def used_now(sample: Mapping[str, Any], field: str) -> int | None:
    """What a topic used of a limit in the last second, or has now of a count; None if it is not known.

    :param sample: of the topic, from a worker's snapshot.
    """
    use = sample.get("use", {}).get(field, {}).get("used_1s")
    if use is None and field in _COUNTED:
        use = _COUNTED[field](sample)
    return None if use is None else round(use)


def _counts(compared: Iterable[str], live: Live, fields: Iterable[str]) -> list[tuple[str, str, str, int]]:
    """What topics in use have now of fields that count, by broker, topic and field."""
    counted = [field for field in fields if field in _COUNTED]
    return [
        (broker, topic, field, _COUNTED[field](sample))
        for field in counted
        for broker in compared
        for topic, sample in live.get(broker, {}).items()
    ]


def _key_json(key: Key) -> dict[str, Any]:
    shown = {"broker": key.broker, "level": key.level.label, "name": key.name, "field": key.field}
    return {**shown, "scope": key.scope, "place": key.target}
