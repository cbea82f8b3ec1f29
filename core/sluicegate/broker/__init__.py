"""What a broker room gives to the gateway: a driver, a front per broker, a session per client.

A session is sans-IO: it takes bytes and the time, and returns commands. The gateway's relay owns sockets,
timers and back-pressure, and executes the commands in order.
"""

from sluicegate.broker.affinity import Wait
from sluicegate.broker.base_driver import BaseDriver, BrokerContext
from sluicegate.broker.base_front import BaseFront
from sluicegate.broker.base_session import BaseSession
from sluicegate.broker.commands import (
    PASS,
    Ask,
    Buffer,
    Close,
    Command,
    Dial,
    Listener,
    NextTurn,
    PassOn,
    PauseReading,
    ResumeReading,
    ToClient,
    ToUpstream,
    WakeAt,
)
from sluicegate.broker.extra import Extra
from sluicegate.broker.interface import InterfaceError, helper
from sluicegate.broker.services import UNIQUE_FACT, Services
from sluicegate.broker.web_services import (
    PolicyRefusedError,
    PolicyUnavailableError,
    Receive,
    Scope,
    Send,
    WebServices,
    WebSite,
)

__all__ = [
    "Ask",
    "BaseDriver",
    "BaseFront",
    "BaseSession",
    "BrokerContext",
    "Buffer",
    "Close",
    "Command",
    "Dial",
    "Extra",
    "InterfaceError",
    "Listener",
    "NextTurn",
    "PASS",
    "PassOn",
    "PauseReading",
    "PolicyRefusedError",
    "PolicyUnavailableError",
    "Receive",
    "ResumeReading",
    "Scope",
    "Send",
    "Services",
    "ToClient",
    "ToUpstream",
    "UNIQUE_FACT",
    "Wait",
    "WakeAt",
    "WebServices",
    "WebSite",
    "helper",
]
