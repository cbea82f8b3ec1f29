"""The largest message size announced in CONNECTED, so that client libraries refuse larger ones."""

from sluicegate.model import Level, ModeKind, PolicySet
from sluicegate_pulsar.session.shared.refusals import SIZE

_LEAST = 256 * 1024
"""The least value announced: clients apply it to whole batches, which they fill up to 128 KiB of payloads."""


def advertised_size(policies: PolicySet, brokers_own: int) -> int:
    """The `max_message_size` for CONNECTED: the lowest that is right for every topic.

    It is for C++ clients only: Java clients also bound received messages by it, and a consumer could not
    get past a larger message that was stored before.

    :param policies: in force now; later ones reach clients when they reconnect, messages at once.
    :param brokers_own: the broker's own limit.
    """
    settings = [layer.settings[SIZE] for layer in policies.layers if SIZE in layer.settings]
    everywhere = any(layer.level is Level.BROKER and SIZE in layer.settings for layer in policies.layers)
    modes = [layer.settings[f"mode.{SIZE}"] for layer in policies.layers if f"mode.{SIZE}" in layer.settings]
    is_on_trial = policies.observe_only or any(mode.value != ModeKind.ENFORCE for mode in modes)
    limits = [setting.value for setting in settings]
    if not everywhere or is_on_trial or SIZE in policies.exempt_policies:
        return brokers_own
    largest = max(limit if isinstance(limit, int) and limit > 0 else brokers_own for limit in limits)
    return min(brokers_own, max(largest, _LEAST))
