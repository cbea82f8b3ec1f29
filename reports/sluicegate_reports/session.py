"""The Spark session of all jobs. No master is named here: who starts a job decides where it runs.

`SPARK_REMOTE=sc://host:port` sends it over Spark Connect; `spark-submit --master ...`, `MASTER` or
`spark-defaults.conf` name a cluster; where nobody names one, Spark takes all cores of this machine.
"""

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS: Mapping[str, str] = {
    "spark.sql.session.timeZone": "UTC",
    # Small partitions become one after a shuffle, so 200 do no harm to small logs, and large ones need them.
    "spark.sql.adaptive.enabled": "true",
    # Windows over one key are short, see transforms.overshoot: they stay in a plain array up to this length.
    "spark.sql.windowExec.buffer.in.memory.threshold": "65536",
}
"""Set on every session, on a server's too."""
LAPTOP_SETTINGS: Mapping[str, str] = {"spark.ui.enabled": "false", "spark.driver.memory": "4g"}
"""What cannot be changed once Spark runs: only for a session that starts Spark itself, and only where
neither `spark-submit` nor the environment says otherwise."""


def spark_session(name: str = "sluicegate", settings: Mapping[str, str] | None = None) -> "SparkSession":
    """Start or join the session that the environment names.

    :param name: the application's name, as Spark's own pages show it.
    :param settings: further Spark settings, which win over those of this module.
    :raises ImportError: without the extra `reports`.
    :raises pyspark.errors.PySparkException: if no session can be started.
    """
    from pyspark.sql import SparkSession

    # Spark would start `python3` of the PATH, which need not be the one that has this package.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    chosen = {**({} if _started_elsewhere() else LAPTOP_SETTINGS), **(settings or {})}
    builder = SparkSession.builder.appName(name)
    for key, value in {**chosen, **SETTINGS, **(settings or {})}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _started_elsewhere() -> bool:
    """Whether a server, `spark-submit` or its arguments decide how Spark runs."""
    names = ("SPARK_REMOTE", "MASTER", "PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT", "SPARK_CONF_DIR")
    return any(name in os.environ for name in names)
