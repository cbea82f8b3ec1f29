"""Warnings of certificates that are about to expire."""

import logging
from collections.abc import Iterable
from datetime import datetime, timedelta

from sluicegate.config.tls import Expiry

log = logging.getLogger(__name__)

_EVERY = timedelta(days=1)
_EXPIRED = timedelta()


class ExpiryWarnings:
    """Logs when the time left of a certificate falls below a threshold; below the last one, once a day.

    :param before: how long before the end the thresholds are; none for no warnings at all.
    """

    def __init__(self, before: Iterable[timedelta]) -> None:
        self._thresholds = sorted(before)
        self._logged: dict[str, tuple[timedelta, datetime, datetime]] = {}
        """By file: the last logged threshold, the expiry date it was for, and when."""

    def look(self, section: str, expiries: Iterable[Expiry], now: datetime) -> None:
        """Log due warnings.

        :param section: the section of the file, such as `tls.client`.
        """
        for expiry in expiries:
            left = expiry.ends - now
            passed = self._passed(left)
            if passed is not None and self._is_due(expiry, passed, now):
                self._logged[expiry.path] = passed, expiry.ends, now
                _warn(f"{section}.{expiry.key}", expiry, left)

    def _passed(self, left: timedelta) -> timedelta | None:
        """The closest threshold that has been passed; 0 once the certificate has expired."""
        if self._thresholds and left < _EXPIRED:
            return _EXPIRED
        return next((threshold for threshold in self._thresholds if left <= threshold), None)

    def _is_due(self, expiry: Expiry, passed: timedelta, now: datetime) -> bool:
        logged = self._logged.get(expiry.path)
        if logged is None or logged[:2] != (passed, expiry.ends):
            return True
        return passed <= self._thresholds[0] and now - logged[2] >= _EVERY


def _warn(key: str, expiry: Expiry, left: timedelta) -> None:
    is_over = left < _EXPIRED
    what = "has expired" if is_over else f"expires in {_in_words(left)}"
    log.log(
        logging.ERROR if is_over else logging.WARNING,
        "certificate %r %s; renew the file: it is read again without a restart",
        expiry.path,
        what,
        extra={"key": key, "not_after": expiry.ends.isoformat()},
    )


def _in_words(left: timedelta) -> str:
    hours = int(left.total_seconds() // 3600)
    return f"{left.days} days" if left.days > 1 else f"{hours} h"
