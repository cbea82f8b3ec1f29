"""Whether a broker can be reached, by address: results of probes, and reports to operators.

Rules of this file: no IO and no clock. Only a probe changes the reported state. A failed dial of a client
triggers a probe of its address, so that a single slow dial does not count as an outage.
"""

import logging
import os
import ssl
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from sluicegate.config.units import Address

log = logging.getLogger(__name__)

Endpoint: TypeAlias = tuple[str, int]
"""Host and port."""

_SECOND_NS = 1_000_000_000
_PROBE_UP_NS = 10 * _SECOND_NS
"""How often an address that answers is probed while there is no traffic from the broker."""
_FIRST_RETRY_NS = _SECOND_NS
_LONGEST_RETRY_NS = 5 * _SECOND_NS
"""How often an address that does not answer is probed; in between, the time doubles."""
_HEARD_NS = 900_000_000
"""A broker that sent bytes within this time is up, whatever a probe says; less than a tick."""
_REMIND_NS = 60 * _SECOND_NS
_SETTLED_NS = 15 * _SECOND_NS
"""Failed dials are logged only once the probe that they triggered must have ended."""
_NODE_KEPT_NS = 600 * _SECOND_NS
"""How long an address outside of the bootstrap list is probed after a client last needed it."""
_MOST_NODES = 1_000
NO_ANSWER = "no answer in time"
_NOT_TRIED = "no answer yet"


class _Target:
    """One address of the broker."""

    def __init__(self, address: Endpoint, now_ns: int, *, is_bootstrap: bool) -> None:
        self.name = str(Address(*address))
        self.is_bootstrap = is_bootstrap
        self.reason = _NOT_TRIED
        """Why it does not answer; empty if it does."""
        self.is_silent = False
        """True if connecting fails only after the timeout."""
        self.is_doubted = False
        """True if a client could not be connected since the last probe."""
        self.is_probing = False
        self.due_ns = self.asked_ns = now_ns
        self.probed_ns = now_ns - _SECOND_NS
        self.failures = 0
        """Probes that failed since one did not."""
        self.is_logged = False
        """True if the log says that it does not answer."""


class Reachability:
    """The addresses of one broker, and which of them answer.

    :param bootstrap: the configured addresses.
    :param now_ns: monotonic time.
    :param heard: gives the number of bytes that all clients have had from the broker.
    :param reached: called when the broker answers for the first time, and when it does so again.
    :param wall_ms: gives the wall-clock time at a monotonic time, in ms since 1970.
    """

    def __init__(
        self,
        bootstrap: Iterable[Endpoint],
        now_ns: int,
        *,
        heard: Callable[[], int] = lambda: 0,
        reached: Callable[[], None] = lambda: None,
        wall_ms: Callable[[int], int] = lambda now_ns: now_ns // 1_000_000,
    ) -> None:
        self._targets = {_key(address): _Target(address, now_ns, is_bootstrap=True) for address in bootstrap}
        self._heard = heard
        self._reached = reached
        self._wall_ms = wall_ms
        self._bytes_heard = 0
        self._heard_ns = now_ns - _PROBE_UP_NS
        self.is_up: bool | None = None
        """None until it is known."""
        self._since_ns = now_ns
        self._turned_away = 0
        """Clients whose broker could not be dialled since the last log line about them."""
        self._turned_away_in_all = 0
        """The same, since the broker was last known to serve clients."""
        self._first_turned_away_ns = 0
        self._logged_ns = now_ns
        self._last_failure = ""

    # -- what comes in --------------------------------------------------------------------------------

    def due(self, now_ns: int) -> list[Endpoint]:
        """Addresses to probe now; the caller must call `probed` for each of them."""
        self._note_traffic(now_ns)
        addresses = []
        for address, target in tuple(self._targets.items()):
            if target.is_probing or now_ns < target.due_ns:
                continue
            if not target.is_bootstrap and now_ns - target.asked_ns > _NODE_KEPT_NS:
                del self._targets[address]
                continue
            if not target.reason and not target.is_doubted and now_ns - self._heard_ns < _PROBE_UP_NS:
                target.due_ns = self._heard_ns + _PROBE_UP_NS
                continue
            target.is_probing = True
            addresses.append(address)
        return addresses

    def probed(self, address: Endpoint, error: Exception | None, now_ns: int) -> None:
        """Record the result of a probe.

        :param address: host and port.
        :param error: why it does not answer; None if it does.
        :param now_ns: monotonic time.
        """
        target = self._targets[_key(address)]
        target.is_probing = target.is_doubted = False
        target.probed_ns = now_ns
        target.reason = "" if error is None else reason_of(error)
        target.is_silent = isinstance(error, TimeoutError)
        if error is None:
            target.failures = 0
            target.due_ns = now_ns + _PROBE_UP_NS
        else:
            target.due_ns = now_ns + min(_FIRST_RETRY_NS << min(target.failures, 10), _LONGEST_RETRY_NS)
            target.failures += 1
        self._judge(now_ns)
        if self.is_up:
            self._log_addresses()
        if not target.is_bootstrap and not target.reason:
            del self._targets[_key(address)]

    def unprobed(self, address: Endpoint, now_ns: int) -> None:
        """Record that an address could not be probed, for lack of the gateway's own resources."""
        target = self._targets[_key(address)]
        target.is_probing = False
        target.due_ns = now_ns + _LONGEST_RETRY_NS

    def dial_failed(self, address: Endpoint, error: Exception, now_ns: int) -> None:
        """Record that a client could not be connected to an address.

        :param address: host and port.
        :param error: why.
        :param now_ns: monotonic time.
        """
        target = self._targets.get(_key(address))
        if target is None:
            if len(self._targets) >= _MOST_NODES:
                return
            target = self._targets[_key(address)] = _Target(address, now_ns, is_bootstrap=False)
            target.reason = ""  # it is one node of a cluster: the others are not in doubt
        target.asked_ns = now_ns
        self._last_failure = f"{target.name}: {reason_of(error)}"
        if not target.reason:
            target.is_doubted = True
            target.due_ns = min(target.due_ns, max(now_ns, target.probed_ns + _SECOND_NS))

    def turned_away(self, now_ns: int) -> None:
        """Record that a client was closed because no broker could be dialled for it."""
        if not self._turned_away:
            self._first_turned_away_ns = now_ns
        self._turned_away += 1
        self._turned_away_in_all += 1

    def dialled(self, address: Endpoint, now_ns: int) -> None:
        """Record that a client was connected: an address that did not answer is probed soon."""
        target = self._targets.get(_key(address))
        if target is not None and target.reason:
            target.due_ns = min(target.due_ns, max(now_ns, target.probed_ns + _SECOND_NS))

    def is_silent(self, address: Endpoint) -> bool:
        """True if clients need not try an address: it does not answer, and probes continue."""
        target = self._targets.get(_key(address))
        return target is not None and target.is_silent

    # -- what goes out --------------------------------------------------------------------------------

    @property
    def reason(self) -> str:
        """Which addresses do not answer, and why."""
        return "; ".join(
            f"{target.name}: {target.reason}" for target in self._targets.values() if target.reason
        )

    def snapshot(self) -> Mapping[str, Any]:
        """The state for metrics, as JSON; `since_ms` is None until it is known whether the broker is up."""
        since_ms = None if self.is_up is None else self._wall_ms(self._since_ns)
        return {"up": bool(self.is_up), "since_ms": since_ms, "reason": self.reason}

    def remind(self, now_ns: int) -> None:
        """Once a second: log clients that were turned away, now and then."""
        if not self._turned_away or now_ns - self._logged_ns < _REMIND_NS:
            return
        if self.is_up is False:
            text = f"still cannot reach broker at {self.reason}"
        elif self._last_failure and now_ns - self._first_turned_away_ns > _SETTLED_NS:
            self._turned_away_in_all = 0
            text = f"the broker answers the gateway, yet clients cannot be connected: {self._last_failure}"
        else:
            return
        log.warning(text, extra={"clients_turned_away": self._turned_away})
        self._logged(now_ns)

    # -- up or down -----------------------------------------------------------------------------------

    def _note_traffic(self, now_ns: int) -> None:
        """Check whether clients have received bytes from the broker since the last check."""
        heard = self._heard()
        if heard != self._bytes_heard:
            self._bytes_heard, self._heard_ns = heard, now_ns

    def _judge(self, now_ns: int) -> None:
        """Decide whether the broker is up, from the state of its addresses; log a change."""
        bootstrap = [target.reason for target in self._targets.values() if target.is_bootstrap]
        # Nodes beyond the bootstrap list may serve clients well after that list has gone stale.
        is_served = self.is_up is True and now_ns - self._heard_ns < _HEARD_NS
        is_up = not all(bootstrap) or is_served
        if is_up == self.is_up or (not is_up and _NOT_TRIED in bootstrap):
            return
        was_up, self.is_up = self.is_up, is_up
        if was_up is False:
            self._log_return(now_ns)
        elif not is_up:
            log.error(
                "cannot reach broker at %s; clients are turned away until it answers: start it, or correct "
                "'bootstrap' or 'tls.broker' of its entry",
                self.reason,
            )
        if was_up is not None or not is_up:
            for target in self._targets.values():
                target.is_logged = bool(target.reason)
        self._since_ns = now_ns
        self._logged(now_ns)
        if is_up:
            self._turned_away_in_all = 0
            self._reached()

    def _log_return(self, now_ns: int) -> None:
        down_s = (now_ns - self._since_ns) // _SECOND_NS
        fields = {"down_s": down_s, "clients_turned_away": self._turned_away_in_all}
        rest = f", except {self.reason}" if self.reason else ""
        # A warning, so that a log that shows the outage shows its end too.
        log.warning("broker is reachable again%s", rest, extra=fields)

    def _log_addresses(self) -> None:
        """Log which addresses of a broker that is up no longer answer, and which answer again."""
        answers = any(target.is_bootstrap and not target.reason for target in self._targets.values())
        for target in self._targets.values():
            is_gone = target.reason not in ("", _NOT_TRIED)
            if is_gone == target.is_logged or (is_gone and not answers and target.failures == 1):
                continue  # the last address to fail is logged as the broker, at its next probe
            target.is_logged = is_gone
            if is_gone:
                text = "cannot reach broker at %s: %s; clients are served by its other addresses"
                log.warning(text, target.name, target.reason)
            else:
                log.warning("broker at %s is reachable again", target.name)

    def _logged(self, now_ns: int) -> None:
        self._logged_ns = now_ns
        self._turned_away = 0
        self._last_failure = ""


def reason_of(error: Exception) -> str:
    """Why an address does not answer, in a few words that do not repeat the address."""
    text = str(error)
    if isinstance(error, OSError) and error.strerror:
        # Event loops word system errors differently; errors of TLS and DNS are left as they are.
        is_of_system = (error.errno or 0) > 0 and not isinstance(error, ssl.SSLError)
        text = os.strerror(error.errno or 0) if is_of_system else error.strerror
    return text[:1].lower() + text[1:] if text else NO_ANSWER


def _key(address: Endpoint) -> Endpoint:
    return address[0].lower(), address[1]
