"""Deadlines of a client: its first bytes, its login, and the end of each frame."""

from sluicegate.broker import BaseSession
from sluicegate.model import ConnectionClose
from sluicegate.net.limits import Limits

_HALF_CLOSED_NS = 30_000_000_000
"""How long a half-closed client may wait for a broker that sends nothing."""


class Deadlines:
    """The deadlines of one client.

    :param now_ns: monotonic time of its connecting.
    """

    __slots__ = ("_login_from_ns", "_progress_ns")

    def __init__(self, now_ns: int) -> None:
        self._login_from_ns = self._progress_ns = now_ns

    def missed(
        self, session: BaseSession | None, now_ns: int, limits: Limits, *, is_paused: bool, has_said: bool
    ) -> tuple[ConnectionClose, str] | None:
        """The deadline that the client has missed: counter and detail of its closing.

        :param session: None until its broker is connected.
        :param now_ns: monotonic time.
        :param limits: the time-outs; 0 for never.
        :param is_paused: whether reading is paused, which stops the time of its frame.
        :param has_said: whether bytes of it are queued for the session.
        """
        if self._login_from_ns and self._is_login_late(session, now_ns, limits.login_ns, has_said):
            return ConnectionClose.LOGIN_TIMED_OUT, "no complete request or login in time"
        if session is not None and self._is_frame_late(session, now_ns, limits.frame_ns, is_paused):
            return ConnectionClose.FRAME_TIMED_OUT, "a frame was begun and not finished"
        return None

    def _is_login_late(self, session: BaseSession | None, now_ns: int, login_ns: int, has_said: bool) -> bool:
        if session is not None and session.is_logged_in:
            self._login_from_ns = 0
            return False
        if session is None and has_said:
            return False  # it waits for its broker: the client is not late
        return 0 < login_ns < now_ns - self._login_from_ns

    def _is_frame_late(self, session: BaseSession, now_ns: int, frame_ns: int, is_paused: bool) -> bool:
        if is_paused:
            self._progress_ns = now_ns
            return False
        began_ns = session.frame_began_ns if frame_ns else 0
        return began_ns > 0 and now_ns - max(began_ns, self._progress_ns) > frame_ns


def is_idle(last_ns: int, now_ns: int, limits: Limits, *, is_half_closed: bool) -> bool:
    """Whether neither side has sent anything for too long.

    :param last_ns: when one of them last did.
    :param now_ns: monotonic time.
    :param limits: the time-outs; 0 for never.
    :param is_half_closed: whether the client has closed its side.
    """
    longest_ns = _HALF_CLOSED_NS if is_half_closed else limits.idle_ns
    return 0 < longest_ns < now_ns - last_ns
