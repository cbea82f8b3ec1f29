"""Findings of `sluicegate check --live`: what the running brokers say of their own limits."""

from collections.abc import Iterator

from sluicegate.cli.findings import Written, written_settings
from sluicegate.cli.opening import Opened
from sluicegate.cli.own_limits import differences
from sluicegate.config.errors import Finding
from sluicegate.features.drift import wording
from sluicegate.features.drift.comparing import Difference, Kind
from sluicegate.model.own_limits import OwnSettingsError


def live_warnings(opened: Opened) -> Iterator[Finding]:
    """Ask all brokers, and warn of policies that admit what a broker refuses.

    :raises click.ClickException: if the store cannot be read.
    """
    root, fields = opened.loaded.root, opened.loaded.fields
    written = {(each.name, each.setting.location): each for each in written_settings(opened)}
    for index, config in enumerate(opened.loaded.config.brokers):
        path = ("brokers", index)
        location = root.nearest(path)
        try:
            compared, own = differences(opened, config)
        except OwnSettingsError as error:
            text = f"broker {config.name!r} cannot be asked for its own limits: {error.text}"
            yield location.error(path, text, error.remedy, "warning")
            continue
        for each in compared:
            if each.kind is not Kind.STRICTER:
                continue
            text = (
                f"{each.field} is {wording.gateway_text(each, fields)} for {wording.target(each)}, but "
                f"broker {config.name!r} has {wording.broker_text(each, fields)} ({each.broker.location})"
            )
            yield _warning(each, written, text, wording.remedy(each, fields)) or location.error(
                path, text, wording.remedy(each, fields), "warning"
            )
        for gap in own.gaps:
            text = f"broker {config.name!r} did not tell all of its own limits: {gap}"
            yield location.error(path, text, "", "warning")


def _warning(
    difference: Difference, written: dict[tuple[str, str], Written], text: str, remedy: str
) -> Finding | None:
    """The warning at the line of the policy; None if the file does not set it."""
    own = written.get((difference.field, difference.gateway.location))
    return None if own is None else own.warning(text, remedy)
