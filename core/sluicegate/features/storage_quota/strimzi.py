"""Converts properties of Strimzi's quota plug-in to a policy file with a comment on each property.

The properties are those of the plug-in's versions 0.2 and 0.3 and of the proposal for storage quotas (035).
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from sluicegate.config.errors import ConfigErrors, Finding
from sluicegate.config.units import BYTE_RATE, DURATION, STORAGE, parse_address
from sluicegate.features.storage_quota.policy_text import PolicyText, quoted
from sluicegate.features.storage_quota.properties import Property, parse_properties

PREFIX = "client.quota.callback.static."
_ADMIN = "kafka.admin."
_UNLIMITED = Decimal("1e300")
"""The plug-in's defaults are the largest double."""
_ISO_DURATION = re.compile(
    r"P(?:(?P<d>\d+)D)?(?:T(?:(?P<h>\d+)H)?(?:(?P<m>\d+)M)?(?:(?P<s>\d+(?:\.\d{1,9})?)S)?)?", re.IGNORECASE
)
_EACH_NODE = (
    "The plug-in's quota applies to each broker node, for all clients together. Here it applies to the whole",
    "gateway: multiply it by the number of nodes.",
)


class _Refused(Exception):  # noqa: N818 - it becomes a Finding
    """A value is invalid: message and remedy."""


@dataclass(frozen=True, slots=True)
class Imported:
    """The result of a conversion."""

    text: str
    taken: int
    """Number of converted properties."""
    left_out: int


def import_strimzi(text: str, file: str) -> Imported:
    """Convert properties to a policy file.

    :param text: content of a .properties file, such as a broker's `server.properties`.
    :param file: its name.
    :raises ConfigErrors: for all invalid values, or if the file has no properties of the plug-in.
    """
    made = PolicyText(file)
    properties = parse_properties(text, file, made.errors)
    own = {one.key.removeprefix(PREFIX): one for one in properties if one.key.startswith(PREFIX)}
    if not own and not made.errors:
        problem, remedy = "no property of the quota plug-in", f"its properties start with {PREFIX!r}"
        raise ConfigErrors([Finding(file, 0, 0, "", f"{problem} in {file!r}", remedy)])
    for name, one in own.items():
        try:
            _take(made, name, one)
        except _Refused as refused:
            made.errors.append(one.error(file, *refused.args))
    _refuse_contradictions(made, own)
    if made.errors:
        raise ConfigErrors(made.errors)
    _fall_back(made, own)
    others = [one for one in properties if not one.key.startswith(PREFIX)]
    idle = sum(line.startswith(f"# {PREFIX}") for line in made.limits) if made.is_off else 0
    return Imported(made.text(others), made.taken - idle, made.omitted + idle)


def _take(made: PolicyText, name: str, one: Property) -> None:
    if name.startswith(_ADMIN) and name != f"{_ADMIN}bootstrap.servers":
        why = "how the plug-in connects to the brokers; the gateway has 'tls' and 'identity' in its entry"
        made.leave_out(one, f"{why}.", is_secret=True)
        return
    take = _TAKE.get(name)
    if take is None:
        made.leave_out(one, "unknown property of the plug-in.")
        return
    take(made, one)


# -- rates --------------------------------------------------------------------------------------------


def _produce(made: PolicyText, one: Property) -> None:
    rate = _number(one.value)
    if rate >= _UNLIMITED:
        made.leave_out(one, "unlimited, which is the default.")
    elif rate < 1:
        made.leave_out(
            one, "it blocks producers, but 0 means unlimited here: set storage_quota limits, or an ACL."
        )
    elif rate > BYTE_RATE.maximum:
        made.leave_out(one, f"more than {BYTE_RATE.text(BYTE_RATE.maximum)}, the maximum of a quota here.")
    else:
        made.rates += [
            *made.about(one, *_EACH_NODE),
            f"publish_quota_bytes: {BYTE_RATE.text(int(rate))}",
        ]


def _fetch(made: PolicyText, one: Property) -> None:
    why = (
        "unlimited, which is the default."
        if _number(one.value) >= _UNLIMITED
        else ("no policy limits all consumers together; see max_dispatch_rate_bytes for each topic.")
    )
    made.leave_out(one, why)


def _request(made: PolicyText, one: Property) -> None:
    made.leave_out(one, "the time that brokers work for a client, which the gateway cannot measure.")


# -- storage ------------------------------------------------------------------------------------------


def _limit(field_name: str, *notes: str) -> Callable[[PolicyText, Property], None]:
    def take(made: PolicyText, one: Property) -> None:
        level = _whole(one.value)
        if level > STORAGE.maximum:
            raise _Refused(f"{one.value!r} is too large", f"write at most {STORAGE.text(STORAGE.maximum)}")
        value = STORAGE.text(level)
        _set_limit(made, one, field_name, f"{value}{_zero(level)}", *notes)

    return take


def _share(field_name: str) -> Callable[[PolicyText, Property], None]:
    def take(made: PolicyText, one: Property) -> None:
        level = _number(one.value)
        if not 0 <= level <= 1:
            raise _Refused(f"{one.value!r} is not a share of the capacity", "write a number from 0.0 to 1.0")
        _set_limit(made, one, field_name, f"{float(level)!r}{_zero(level)}")

    return take


def _set_limit(made: PolicyText, one: Property, field_name: str, value: str, *notes: str) -> None:
    if any(line.startswith(f"{field_name}:") for line in made.limits):
        raise _Refused(f"another property sets the same limit, {field_name}", "remove one of them")
    made.limits += [*made.about(one, *notes), f"{field_name}: {value}"]


def _zero(level: Decimal | int) -> str:
    return "" if level else "  # 0 means no limit here"


def _interval(made: PolicyText, one: Property) -> None:
    seconds = _whole(one.value)
    made.is_off = seconds == 0
    if seconds * 1000 > DURATION.maximum:
        raise _Refused(f"{one.value!r} seconds are too long", f"write at most {DURATION.maximum // 1000}")
    if seconds:
        made.storage += [*made.about(one, "In seconds."), f"interval: {DURATION.text(seconds * 1000)}"]
    else:
        made.leave_out(one, "the plug-in checks no volumes, so its limits have no effect.")


def _validity(made: PolicyText, one: Property) -> None:
    match = _ISO_DURATION.fullmatch(one.value)
    parts = {name: Decimal(text) for name, text in (match.groupdict() if match else {}).items() if text}
    seconds = sum(
        parts.get(name, Decimal(0)) * unit for name, unit in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))
    )
    milliseconds = int(seconds * 1000)
    if not parts or not 0 < milliseconds <= DURATION.maximum:
        raise _Refused(f"{one.value!r} is not a duration", "write an ISO 8601 duration: PT5M, PT30S")
    made.limits += [*made.about(one), f"storage_stale_after: {DURATION.text(milliseconds)}"]


def _fallback(made: PolicyText, one: Property) -> None:
    factor = _number(one.value)
    if not 0 <= factor <= 1:
        raise _Refused(f"{one.value!r} is not a factor", "write a number from 0.0 to 1.0")
    note = () if factor in (0, 1) else ("Values in between are not possible here; this is the safer one.",)
    made.limits += [*made.about(one, *note), _on_unknown("open" if factor == 1 else "pause")]


def _on_unknown(value: str) -> str:
    return f"on_unknown: {{ storage_quota: {value} }}"


def _fall_back(made: PolicyText, own: Mapping[str, Property]) -> None:
    """Keep the plug-in's default for missing data."""
    if made.has_limits and not made.is_off and "throttle.factor.fallback" not in own:
        made.limits += [
            "# The plug-in's behaviour while usage is unknown: throttle.factor.fallback is 1.0 by default.",
            "# Without this line publishing pauses, which is safer.",
            _on_unknown("open"),
        ]


def _refuse_contradictions(made: PolicyText, own: Mapping[str, Property]) -> None:
    """Refuse limits that the plug-in or the policy file would refuse."""
    by_bytes, by_share = (own.get(f"{_PER_VOLUME}.{name}") for name in ("bytes", "ratio"))
    if by_bytes is not None and by_share is not None:
        problem = f"{by_bytes.key} is set too, but the plug-in accepts only one of them"
        made.errors.append(by_share.error(made.file, problem, "remove one of them"))
    for name, larger in (("", False), (".min-free-bytes", True), (".min-free-percent", True)):
        hard, soft = own.get(f"storage.hard{name}"), own.get(f"storage.soft{name}")
        if hard is None or soft is None or made.errors:
            continue
        first, second = _number(hard.value), _number(soft.value)
        if first and second and (second < first if larger else second > first):
            problem = f"the soft limit {soft.value} would be reached after the hard one {hard.value}"
            remedy = f"make it {'larger' if larger else 'smaller'}"
            made.errors.append(soft.error(made.file, problem, remedy))


# -- who and where ------------------------------------------------------------------------------------


def _principals(made: PolicyText, one: Property) -> None:
    """Names as `User:a;User:b`; in older versions without a type and separated by commas."""
    text = one.value.strip()
    parts = re.split(r";|,\s*(?=User:)", text) if "User:" in text or ";" in text else text.split(",")
    names = [part.strip() for part in parts if part.strip()]
    principals = [name if name.startswith("User:") else f"User:{name}" for name in names]
    if not principals:
        made.leave_out(one, "it lists no user.")
        return
    note = "They skip counts, rates and factors of the gateway; other policies only if listed."
    listed = ", ".join(quoted(name) for name in principals)
    made.entry += [*made.about(one, note), f"exempt: {{ principals: [{listed}] }}"]


def _bootstrap(made: PolicyText, one: Property) -> None:
    addresses = [part.strip() for part in one.value.split(",") if part.strip()]
    for address in addresses:
        try:
            parse_address(address)
        except ValueError:
            raise _Refused(
                f"{address!r} is not an address", "write host:port, port 1 to 65535, separated by commas"
            ) from None
    if not addresses:
        raise _Refused("the address is missing", "write host:port")
    made.bootstrap = [
        *made.about(one, "This may be a listener for brokers only; the gateway connects clients to it."),
        f"bootstrap: [{', '.join(quoted(each) for each in addresses)}]",
    ]


def _client_id(made: PolicyText, one: Property) -> None:
    made.leave_out(one, "how the plug-in names its own connections.")


_PER_VOLUME = "storage.per.volume.limit.min.available"
_SUMMED = ("Version 0.2 of the plug-in adds up a node's volumes; here each volume is evaluated separately.",)
_TAKE: Mapping[str, Callable[[PolicyText, Property], None]] = {
    "produce": _produce,
    "fetch": _fetch,
    "request": _request,
    "storage.hard": _limit("storage_hard_consumed_bytes", *_SUMMED),
    "storage.soft": _limit("storage_soft_consumed_bytes", *_SUMMED),
    "storage.hard.min-free-bytes": _limit("storage_hard_min_free_bytes"),
    "storage.soft.min-free-bytes": _limit("storage_soft_min_free_bytes"),
    "storage.hard.min-free-percent": _share("storage_hard_min_free_ratio"),
    "storage.soft.min-free-percent": _share("storage_soft_min_free_ratio"),
    f"{_PER_VOLUME}.bytes": _limit(
        "storage_hard_min_free_bytes",
        "A larger storage_soft_min_free_bytes would first slow publishing down, which the plug-in cannot.",
    ),
    f"{_PER_VOLUME}.ratio": _share("storage_hard_min_free_ratio"),
    "storage.check-interval": _interval,
    "throttle.factor.fallback": _fallback,
    "throttle.factor.validity.duration": _validity,
    "excluded.principal.name.list": _principals,
    f"{_ADMIN}bootstrap.servers": _bootstrap,
    "kafka.clientIdPrefix": _client_id,
}


# -- reading values -----------------------------------------------------------------------------------


def _number(text: str) -> Decimal:
    try:
        number = Decimal(text.strip().rstrip("dDfF"))
    except InvalidOperation:
        number = Decimal("NaN")
    if number.is_nan() or number < 0:
        raise _Refused(f"{text!r} is not a number of 0 or more", "write a number such as 1000000 or 0.05")
    return number


def _whole(text: str) -> int:
    if not re.fullmatch(r"\+?[0-9]{1,19}", text.strip()):
        raise _Refused(f"{text!r} is not a whole number", "write a number such as 5368709120")
    return int(text)
