"""The policies that a gateway's admin API serves, followed in a thread; the last good ones stay in force."""

import asyncio
import json
import logging
import ssl
from collections.abc import Mapping
from http import HTTPStatus
from http.client import HTTPException
from pathlib import Path
from threading import Event, Thread
from time import monotonic_ns
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

from pydantic import ValidationError

from sluicegate.config.fields import PolicyFields
from sluicegate.config.models import BrokerConfig
from sluicegate.engine.plugin_metrics import Metrics
from sluicegate.host.http_get import LARGEST_ANSWER, exchange, shown_url
from sluicegate.host.private_files import make_folder, replace_file
from sluicegate.model import PolicySet, version_text
from sluicegate.pacing.backoff import Backoff
from sluicegate.runtime.plugins import Plugins
from sluicegate.runtime.served_policies import ServedPolicies

log = logging.getLogger(__name__)

PATH = "/api/v1/policies/in-force"
"""Below the URL of the admin endpoint."""
_NAME = "policies-in-force.json"
"""The copy in the state directory."""
_WAIT_S = 30
"""How long the gateway keeps a request open while nothing changes."""
_MARGIN_S = 10
_AT_ONCE_NS = 5_000_000_000
"""Between two requests that the gateway answers at once although nothing has changed."""
_FIRST_RETRY_NS = 500_000_000
_LONGEST_RETRY_NS = 30_000_000_000
_JOIN_S = 5.0


_FINAL = frozenset({400, 401, 403, 404, 421})
"""Statuses that another try in the next seconds would have as well."""


class PolicyUrlError(Exception):
    """The gateway does not serve usable policies; the message says why, and what to do.

    :param is_final: whether another try in the next seconds would fail as well.
    """

    def __init__(self, text: str, *, is_final: bool = False) -> None:
        super().__init__(text)
        self.is_final = is_final


class _Good(NamedTuple):
    """Policies that this process can apply."""

    etag: str
    text: bytes
    served: ServedPolicies
    config: BrokerConfig
    policies: PolicySet


class PoliciesByUrl:
    """Follows the policies of one broker; its methods never block, but for `start` and `close`.

    :param url: of the gateway's admin endpoint, such as `http://gateway:9095`.
    :param broker: name of its entry there; may be left out if there is only one.
    :param plugins: of this process; fields that none of them declares are left out.
    :param token: of a caller of the gateway's `admin.callers`; None for a gateway of this host.
    :param tls: context for `https:`; the system's defaults if None.
    :param state_dir: where the last good policies are kept for the next start; nowhere if None.
    :raises ValueError: if the URL is none, or has a login.
    """

    def __init__(
        self,
        url: str,
        broker: str | None,
        plugins: Plugins,
        token: str | None = None,
        tls: ssl.SSLContext | None = None,
        state_dir: Path | None = None,
    ) -> None:
        self._url = policies_url(url, broker)
        self._shown = shown_url(url)
        self._plugins = plugins
        self._fields = PolicyFields.of(plugins.policy_models)
        self._token = token
        self._tls = tls
        self._copy = None if state_dir is None else state_dir / _NAME
        self._good: _Good | None = None
        self._retry = Backoff(_FIRST_RETRY_NS, _LONGEST_RETRY_NS)
        self.problem = ""
        """Why the gateway's policies are not known now; empty if they are."""
        self.failures = 0
        """Requests that failed."""
        self.changes = 0
        """Incremented with each change."""
        self._tried = Event()
        self._following: asyncio.Task[None] | None = None
        self._thread = Thread(target=self._run, name="sluicegate-policies", daemon=True)

    def start(self, timeout_s: float) -> None:
        """Begin to follow; returns once policies are known.

        :param timeout_s: how long to wait for the gateway.
        :raises PolicyUrlError: if it serves none in time, and none of an earlier start are kept.
        """
        self._loop = asyncio.new_event_loop()
        self._thread.start()
        self._tried.wait(timeout_s)
        if self._good is None:
            self._good = self._kept()
        if self._good is None:
            self.close()
            problem = self.problem or f"no answer within {timeout_s:g} s"
            raise PolicyUrlError(f"no policies from {self._shown}: {problem}")

    @property
    def config(self) -> BrokerConfig:
        """The broker's entry, as of the start."""
        return self._known.config

    @property
    def unknown(self) -> list[str]:
        """Fields that the gateway applies and no plugin of this process knows."""
        return self._known.served.unknown(self._fields)

    # -- as of `PolicyWatch` --------------------------------------------------------------------------

    def policies(self, broker: str) -> PolicySet:
        """The policies in force."""
        return self._known.policies

    def check(self) -> None:
        """Nothing: the thread checks."""

    def facts(self, broker: str) -> Mapping[str, str]:
        """None: a gateway keeps its facts for itself."""
        return MappingProxyType({})

    def keep_fact(self, broker: str, key: str, value: str) -> None:
        """Nothing: facts are not kept."""

    def close(self) -> None:
        """End the thread; idempotent."""
        if not self._thread.is_alive():
            return
        self._loop.call_soon_threadsafe(self._cancel)
        self._thread.join(_JOIN_S)  # longer only while the resolver looks for a name

    def publish(self, metrics: Metrics) -> None:
        """Bring the metrics up to date."""
        text = "1 while the gateway tells its policies; 0 while the last good ones apply."
        metrics.gauge("sluicegate_policies_url_up", text).set(not self.problem)
        text = "Requests for policies that failed, since the start."
        metrics.gauge("sluicegate_policies_url_failures", text).set(self.failures)

    # -- the thread -----------------------------------------------------------------------------------

    @property
    def _known(self) -> _Good:
        if self._good is None:
            raise RuntimeError("not started")
        return self._good

    def _run(self) -> None:
        try:
            self._following = self._loop.create_task(self._follow())
            self._loop.run_until_complete(asyncio.wait([self._following]))
            self._loop.run_until_complete(asyncio.sleep(0))  # its connection is closed then
        finally:
            self._loop.close()

    def _cancel(self) -> None:
        if self._following is not None:
            self._following.cancel()

    async def _follow(self) -> None:
        while True:
            asked_ns = monotonic_ns()
            try:
                is_new = await self._ask()
            except Exception as error:  # noqa: BLE001 - whatever it is, the next answer may be better
                self._failed(error)
                wait_ns = self._retry.failed(monotonic_ns())
            else:
                self._succeeded()
                wait_ns = 0 if is_new else max(0, asked_ns + _AT_ONCE_NS - monotonic_ns())
            await asyncio.sleep(wait_ns / 1e9)

    async def _ask(self) -> bool:
        """Ask once; whether the policies have changed.

        :raises PolicyUrlError: if the answer is of no use.
        """
        # After a failure the whole answer: another gateway may have taken the place of the one before.
        etag = self._good.etag if self._good is not None and not self._retry.failures else ""
        status, answered, text = await self._exchange(etag)
        if status == HTTPStatus.NOT_MODIFIED and etag:
            return False
        if status != HTTPStatus.OK:
            raise PolicyUrlError(_reason(status, text), is_final=status in _FINAL)
        good = self._read(answered, text)
        before, self._good = self._good, good
        if before is not None and before.policies == good.policies:
            return False
        if before is not None and before.config != good.config:
            log.warning("restart this process to apply all of %s: its entry has changed", self._shown)
        self.changes += 1
        self._keep(good)
        return True

    async def _exchange(self, etag: str) -> tuple[int, str, bytes]:
        headers = {"Accept": "application/json"}
        url = self._url
        if etag:
            headers["If-None-Match"] = etag
            url += f"&wait={_WAIT_S}" if "?" in url else f"?wait={_WAIT_S}"
        timeout_s = (_WAIT_S if etag else 0) + _MARGIN_S
        try:
            async with asyncio.timeout(timeout_s):
                response, content = await exchange(url, token=self._token, tls=self._tls, headers=headers)
        except TimeoutError:
            raise PolicyUrlError(f"no answer within {timeout_s} s") from None
        except (OSError, HTTPException, ValueError) as error:
            raise PolicyUrlError(str(error) or type(error).__name__) from error
        return response.status, response.headers.get("etag", ""), content

    def _read(self, etag: str, text: bytes) -> _Good:
        try:
            served = ServedPolicies.model_validate_json(text)
            driver = self._plugins.drivers.get(served.system)
            if driver is None:
                raise PolicyUrlError(f"broker {served.broker!r} is of kind {served.system!r}, not known here")
            if self._good is not None and served.broker != self._good.served.broker:
                raise PolicyUrlError(f"the policies are of broker {served.broker!r} now")
            config = served.broker_config(driver.config_model)
            return _Good(etag, text, served, config, served.policy_set(self._fields))
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(map(str, first["loc"]))
            raise PolicyUrlError(f"its answer cannot be used: {place}: {first['msg']}") from None

    def _failed(self, error: Exception) -> None:
        if not isinstance(error, PolicyUrlError):
            log.error("the policies of %s cannot be read", self._shown, exc_info=error)
        self.failures += 1
        if self._good is not None and not self.problem:
            log.error("%s does not tell its policies, the last good ones stay: %s", self._shown, error)
        self.problem = str(error) or repr(error)
        if getattr(error, "is_final", False) or (self._copy is not None and self._copy.exists()):
            self._tried.set()

    def _succeeded(self) -> None:
        if self.problem:
            log.info("%s tells its policies again", self._shown)
        self.problem = ""
        self._retry.reset()
        self._tried.set()

    # -- the copy -------------------------------------------------------------------------------------

    def _keep(self, good: _Good) -> None:
        if self._copy is None:
            return
        try:
            make_folder(self._copy.parent)
            replace_file(self._copy, json.dumps({"url": self._url, "policies": json.loads(good.text)}))
        except OSError as error:
            log.warning("the policies cannot be kept for the next start: %s", error)

    def _kept(self) -> _Good | None:
        if self._copy is None:
            return None
        try:
            kept: dict[str, Any] = json.loads(self._copy.read_bytes())
            if kept["url"] != self._url:
                return None
            good = self._read("", json.dumps(kept["policies"]).encode())
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, PolicyUrlError) as error:
            log.warning("%s cannot be used: %s", self._copy, error)
            return None
        version = version_text(good.policies.version)
        log.warning("%s does not answer, policies %s of an earlier start apply", self._shown, version)
        return good


def policies_url(url: str, broker: str | None) -> str:
    """The URL of the policies in force.

    :param url: of the admin endpoint.
    :raises ValueError: if it is none, or has a login.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ValueError(f"{shown_url(url)!r} is no URL of an admin endpoint: write http://gateway:9095")
    if "@" in parts.netloc:
        raise ValueError("a URL with a login is shown in logs: give the token by SLUICEGATE_TOKEN")
    query = "" if broker is None else f"?broker={quote(broker, safe='')}"
    return f"{url.rstrip('/')}{PATH}{query}"


def _reason(status: int, text: bytes) -> str:
    """What an answer that is none of 200 says."""
    try:
        problem = json.loads(text[:LARGEST_ANSWER])
        return f"{status} {problem['detail']}: {problem['remedy']}"[:1_000]
    except (ValueError, KeyError, TypeError):
        return f"status {status}"
