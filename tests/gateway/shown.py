"""Which certificate clients are shown."""

import asyncio
import ssl

from cryptography import x509
from tests.gateway.certificates import Authority
from tests.gateway.handshakes import serial
from tests.waiting import LONG_S

from sluicegate.processes.in_process import EmbeddedGateway

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def served_to(streams: Streams) -> int:
    """Serial number of the certificate that a client was shown."""
    der = streams[1].get_extra_info("ssl_object").getpeercert(True)
    return x509.load_der_x509_certificate(der).serial_number


async def greet(streams: Streams) -> bytes:
    """What an echo says to a line."""
    reader, writer = streams
    writer.write(b"hello\n")
    return await reader.readline()


async def shown_at(address: tuple[str, int], trusted: ssl.SSLContext) -> int:
    """Serial number of the certificate that a new client is shown at an address."""
    streams = await asyncio.open_connection(*address, ssl=trusted)
    streams[1].close()
    return served_to(streams)


async def renewed(gateway: EmbeddedGateway, authority: Authority, name: str) -> int:
    """Renew the certificate of a gateway's first broker while it serves.

    :param authority: has issued the certificate for 127.0.0.1.
    :param name: of its files.
    :return: how many connections were made to see that new clients are shown the new one.
    """
    trusted = ssl.create_default_context(cafile=authority.ca)
    before = await shown_at(gateway.address(), trusted)
    cert, _ = authority.issue(name, "127.0.0.1")
    count = 1
    async with asyncio.timeout(LONG_S):
        while (after := await shown_at(gateway.address(), trusted)) == before:
            count += 1
            await asyncio.sleep(0.05)
    assert after == serial(cert)
    return count + 1


def accepted(gateway: EmbeddedGateway) -> int:
    """Connections that the first broker's clients have made."""
    return int(gateway.snapshot()[0]["counters"]["connections_accepted"])
