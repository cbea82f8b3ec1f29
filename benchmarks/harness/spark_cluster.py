"""A standalone cluster of Spark on this machine: a master, and two workers with a core each."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.harness.processes import Child, free_port

_WORKERS = 2
_START_S = 120
_ENVIRONMENT = {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable, "PYTHONSAFEPATH": "1"}
_REGISTERED = "Successfully registered with master"


@contextmanager
def standalone(directory: Path) -> Iterator[str]:
    """Start the cluster; it ends with the block.

    :param directory: for logs and for the work of executors; made if it is missing.
    :return: the master's address, `spark://HOST:PORT`.
    :raises UnavailableError: if a process does not start.
    """
    directory.mkdir(parents=True, exist_ok=True)
    port = free_port()
    address = f"spark://127.0.0.1:{port}"
    with ExitStack() as stack:
        master = stack.enter_context(_daemon(directory, "master", "master.Master", port))
        master.wait_for_port(port, _START_S)
        for number in range(_WORKERS):
            work = directory / f"work-{number}"
            size = ("--cores", "1", "--memory", "1g", "--work-dir", str(work))
            worker = _daemon(directory, f"worker-{number}", "worker.Worker", free_port(), *size, address)
            stack.enter_context(worker).wait_for(_REGISTERED, _START_S)
        yield address


def _daemon(directory: Path, name: str, module: str, port: int, *arguments: str) -> Child:
    import pyspark  # not at start-up: all scenarios are imported, and one needs it

    spark_class = Path(pyspark.__file__).parent / "bin" / "spark-class"
    program = [str(spark_class), f"org.apache.spark.deploy.{module}"]
    listen = ["--host", "127.0.0.1", "--port", str(port), "--webui-port", str(free_port())]
    return Child(name, [*program, *listen, *arguments], directory / f"{name}.log", _ENVIRONMENT)
