"""The memory of the machine that the gateway runs on, as the kernel tells it."""

from pathlib import Path

from sluicegate.api import PressureSource, hookimpl

MEMINFO = Path("/proc/meminfo")


def meminfo():
    lines = (line.split() for line in MEMINFO.read_text().splitlines())
    return {words[0]: int(words[1]) for words in lines}


async def used():
    kib = meminfo()
    return 1 - kib["MemAvailable:"] / kib["MemTotal:"]


@hookimpl
def sluicegate_pressure_sources(context):
    return [PressureSource("machine", "memory", used)]
