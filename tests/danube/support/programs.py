"""Programs that are no part of the project: without them tests skip, or fail where they are asked for."""

import asyncio
import os
import shutil
from pathlib import Path
from typing import NoReturn

import pytest
from benchmarks.harness.grpc_clients import program
from benchmarks.harness.processes import UnavailableError


def _missing(reason: str) -> NoReturn:
    if os.environ.get("SLUICEGATE_REQUIRE_BROKER") == "1":
        pytest.fail(reason)
    pytest.skip(reason)


def built(name: str) -> Path:
    """A program that `make grpc-go` builds."""
    try:
        return program(name)
    except UnavailableError as reason:
        _missing(str(reason))


def installed(name: str, package: str) -> Path:
    """A program of a Debian package."""
    found = shutil.which(name)
    if found is None:
        _missing(f"{name} is missing: install {package}")
    return Path(found)


async def run(*command: str | Path) -> str:
    """What a program prints; its exit code is for the caller to find out from that."""
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    told, _ = await process.communicate()
    return told.decode(errors="replace")
