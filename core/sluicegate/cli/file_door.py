"""The policies of a file and its store, without a gateway, for `sluicegate policies`."""

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from typing import TypeVar

import click

from sluicegate.broker import PolicyRefusedError, PolicyUnavailableError
from sluicegate.cli.asking import Answer
from sluicegate.cli.command_user import command_user
from sluicegate.cli.opening import Opened, refuse
from sluicegate.config.errors import ConfigErrors
from sluicegate.runtime.changing import Wanted
from sluicegate.runtime.edits import PromoteBody, change_from, validated
from sluicegate.runtime.plugins import PluginError
from sluicegate.runtime.policies_in_force import PolicyWatch
from sluicegate.runtime.policy_desk import PolicyDesk, reason_of_undo
from sluicegate.store import Author, StoreError
from sluicegate.store.sqlite_file import is_missing

Result = TypeVar("Result")


class FileDoor:
    """A file and its store, without a gateway.

    :param file: path of the file.
    :param opened: the file.
    :param reason: why no gateway is asked.
    """

    def __init__(self, file: str, opened: Opened, reason: str) -> None:
        self._file = file
        self._opened = opened
        self.origin = f"{file} and its store: {reason}"

    def settings(self) -> Answer:
        """Everything that file and store set."""
        return self._at_desk(lambda desk: desk.settings())

    def change(self, edits: list[Answer], reason: str, seen: str | None, *, dry_run: bool) -> Answer:
        """Set and unset policies, or plan it."""
        return self._changed(lambda desk: change_from(edits, reason).wanted(), reason, seen, dry_run=dry_run)

    def export(self) -> str:
        """The store's policies as a document."""
        return self._at_desk(PolicyDesk.export)

    def apply(self, text: str, reason: str, *, prune: bool, dry_run: bool) -> Answer:
        """Make the store agree with a document, or plan it."""
        return self._changed(
            lambda desk: desk.document(text, "document", prune=prune), reason, None, dry_run=dry_run
        )

    def history(self, limit: int) -> list[Answer]:
        """The last revisions."""
        return self._at_desk(lambda desk: desk.history(limit))

    def undo(self, number: int, reason: str, *, dry_run: bool) -> Answer:
        """Take back a revision, or plan it."""
        why = reason_of_undo(number, reason)
        return self._changed(lambda desk: desk.undoing(number), why, None, dry_run=dry_run)

    def rollouts(self) -> list[Answer]:
        """The policies that do not apply to everybody yet; nothing is counted without a gateway."""
        return self._at_desk(lambda desk: desk.rollouts.rows())

    def promote(self, asked: Answer, *, dry_run: bool) -> Answer:
        """Have a policy apply to more, or plan it."""

        def find(desk: PolicyDesk) -> list[Wanted]:
            return desk.rollouts.promoting(validated(PromoteBody, asked).promotion())

        return self._changed(find, asked["reason"], None, dry_run=dry_run)

    def _changed(
        self, find: Callable[[PolicyDesk], list[Wanted]], reason: str, seen: str | None, *, dry_run: bool
    ) -> Answer:
        author = Author(command_user(), reason)

        def work(desk: PolicyDesk) -> Answer:
            change, hindsight = desk.carry_out(find(desk), author, seen, dry_run=dry_run)
            if hindsight is not None:
                change["last_hour"] = hindsight.look(time.time_ns() / 1e9)
            return change

        return self._at_desk(work, creates=not dry_run)

    def _at_desk(self, call: Callable[[PolicyDesk], Result], *, creates: bool = False) -> Result:
        """Make a call; only one that creates may make a store that there is not yet."""
        loaded = self._opened.loaded
        if not creates and is_missing(loaded.config.store_url):
            loaded = replace(loaded, config=loaded.config.model_copy(update={"store": "memory:"}))
        try:
            with closing(PolicyWatch(self._file, loaded, self._opened.plugins)) as watch:
                return call(PolicyDesk(watch))
        except ConfigErrors as refused:
            refuse("document", refused.errors)
        except (PolicyRefusedError, PolicyUnavailableError, StoreError, PluginError) as error:
            raise click.ClickException(str(error)) from None
