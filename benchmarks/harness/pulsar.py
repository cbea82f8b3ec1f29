"""Apache Pulsar Proxy in front of a real Pulsar."""

from contextlib import ExitStack
from pathlib import Path

from benchmarks.harness.jars import pulsar_proxy
from benchmarks.harness.processes import Child
from sluicegate_reports.runner.brokers.jars import java
from sluicegate_reports.runner.brokers.pulsar import CLUSTER, LOGGING, OPENED, STEADY_JVM, PulsarNode

_PROXY_START_S = 60


def start_proxy(stack: ExitStack, directory: Path, node: PulsarNode, *, port: int, web_port: int) -> Child:
    """Start Apache Pulsar Proxy in front of a node; it ends with `stack`.

    :param port: a free port for clients, who then use `pulsar://127.0.0.1:port`.
    :param web_port: a free port for its admin and status pages.
    :raises UnavailableError: if there is no Java, no Pulsar Proxy, or it does not start.
    """
    classpath = pulsar_proxy()
    directory.mkdir(parents=True)
    settings = directory / "proxy.conf"
    lines = {
        "clusterName": CLUSTER,
        "bindAddress": "127.0.0.1",
        "advertisedAddress": "127.0.0.1",
        "servicePort": port,
        "webServicePort": web_port,
        "brokerServiceURL": node.service_url,
        "brokerWebServiceURL": node.admin_url,
        # By default it dials only Pulsar's usual ports.
        "brokerProxyAllowedTargetPorts": "*",
        "brokerProxyAllowedIPAddresses": "127.0.0.1",
    }
    settings.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
    command: list[str | Path] = [
        *(java(), *STEADY_JVM, f"-Dlog4j2.configurationFile={LOGGING}"),
        *(f"--add-opens={package}=ALL-UNNAMED" for package in OPENED),
        *("-cp", classpath, "org.apache.pulsar.proxy.server.ProxyServiceStarter", "--config", settings),
    ]
    child = stack.enter_context(Child("pulsar-proxy", command, directory / "proxy.log"))
    # It listens here last, and before that it may still give up.
    child.wait_for_port(web_port, _PROXY_START_S)
    return child
