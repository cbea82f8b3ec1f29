"""Files with mistakes that people make, and what must be said about each."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class Wrong:
    """One file with one mistake. `$TLS` stands for the directory with certificates."""

    name: str
    text: str | bytes
    line: int
    value: str
    """What the message must show."""
    remedy: str
    """What the remedy must say."""
    severity: str = "error"
    environ: Mapping[str, str] = field(default_factory=dict)
    run_starts: bool = False
    """True if `run` warns of it, or meets it later, and so begins."""
    is_alone: bool = True
    """False if another finding follows from the same mistake."""

    @property
    def data(self) -> bytes:
        """The file's content, in UTF-8 unless the mistake is that it is not."""
        return self.text if isinstance(self.text, bytes) else self.text.encode()


BROKER = """\
brokers:
  - name: main
    system: kafka
    bootstrap: ["127.0.0.1:9092"]
    listen: {port: 19092}
"""
POLICY = BROKER + "policies:\n  broker:\n    "
PULSAR = BROKER.replace("kafka", "pulsar")
DANUBE = BROKER.replace("kafka", "danube")
SECOND = """\
  - name: second
    system: pulsar
    bootstrap: ["127.0.0.1:6650"]
    listen: {port: %d}
"""
TOPIC = "policies:\n  topics:\n    - name: %s\n      max_publish_rate: 50\n"
NAMESPACE = TOPIC.replace("topics", "namespaces")


def of_policy(name: str, written: str, value: str, remedy: str, severity: str = "error") -> Wrong:
    """A mistake in one policy of the broker's level."""
    return Wrong(name, POLICY + written + "\n", 8, value, remedy, severity)


def of_tls(
    name: str, cert: str, key: str, line: int, value: str, remedy: str, *, run_starts: bool = False
) -> Wrong:
    """A mistake in the files for TLS towards clients."""
    files = f"    tls:\n      client:\n        cert: $TLS/{cert}\n        key: $TLS/{key}\n"
    return Wrong(name, BROKER + files, line, value, remedy, run_starts=run_starts)


UNITS = [
    of_policy(
        "bytes as a rate of messages",
        "max_publish_rate: 500MB",
        "'500MB'",
        "for bytes write 'max_publish_rate_bytes: 500MB'",
    ),
    of_policy(
        "bytes as a rate by the seed's name",
        "max_publish_rate_msg: 1MiB/s",
        "'1MiB/s'",
        "write 'max_publish_rate_bytes: 1MiB/s'",
    ),
    of_policy(
        "bytes as a ceiling of messages",
        "ceiling: {max_dispatch_rate: 5GB}",
        "'5GB'",
        "write 'max_dispatch_rate_bytes: 5GB'",
    ),
    Wrong(
        "bytes as a quota of messages",
        BROKER + "    quotas:\n      - principal: User:etl\n        messages: 5MB\n",
        8,
        "'5MB'",
        "write 'bytes: 5MB'",
    ),
    of_policy("a word for a unit", "fixed_delivery_delay: 1 sec", "'1 sec'", "did you mean 's'"),
    of_policy("a capital K", "max_publish_rate: 10K/s", "'10K/s'", "did you mean 'k'"),
    of_policy("the case of MiB", "max_message_size: 1mib", "'1mib'", "did you mean 'MiB'"),
    of_policy("a rate as a size", "max_message_size: 1MB/s", "'1MB/s'", "10MiB"),
    of_policy("thousands of bytes", "max_publish_rate_bytes: 10k/s", "'10k/s'", "did you mean 'kB'"),
    of_policy("a negative number", "max_publish_rate: -1", "-1", "write 0 for unlimited"),
    of_policy("a negative time", "fixed_delivery_delay: -5s", "'-5s'", "write 0 for none"),
    of_policy("a percentage", "max_publish_rate: 50%", "'50%'", "500/s"),
    of_policy("a comma", "max_producers_per_topic: 1,000", "'1,000'", "such as 100"),
    of_policy("a count with a unit", "max_producers_per_topic: 10k", "'10k'", "such as 100"),
    of_policy("a size that is too large", "max_message_size: 5TiB", "'5TiB'", "known units: GiB"),
    of_policy("five times the capacity", "storage_hard_min_free_ratio: 5", "5", "write '5%'"),
]
SYNTAX = [
    Wrong("a tab", BROKER + "policies:\n\tbroker: {}\n", 7, "\\t", "spaces, not with tabs"),
    Wrong("a tab below a key", POLICY + "locked:\n\t- a\n", 9, "\\t", "spaces, not with tabs"),
    Wrong("a duplicate key", BROKER + "    listen: {port: 5}\n", 6, "'listen'", "first used in line 5"),
    Wrong("a colon in a value", BROKER + "state_dir: C: data\n", 6, "mapping values", "in quotes"),
    Wrong("a bracket left open", BROKER + "plugins: [a, b\n", 7, "']'", "brackets"),
    Wrong("indentation", BROKER + "   tls: {}\n", 6, "not YAML", "indentation"),
    Wrong("a second document", BROKER + "---\na: 1\n", 6, "second document", "one document"),
    Wrong("an alias by accident", BROKER + "state_dir: *here\n", 6, "'here'", "in quotes"),
    Wrong("a pattern without quotes", BROKER + TOPIC % "*.dlq", 8, "alias", "'*' in quotes"),
    Wrong("a value that begins with a sign", BROKER + TOPIC % "@a", 8, "cannot start", "'@' in quotes"),
    Wrong("a quote left open", BROKER + TOPIC % '"a', 8, "quoted scalar", "close the quote"),
    Wrong("a bracket left open before", BROKER + "plugins: [a, b\nadmin: {port: 1}\n", 7, "']'", "line 6"),
]
TYPES = [
    Wrong("bootstrap as text", BROKER.replace('["127.0.0.1:9092"]', "kafka:9092"), 4, "'kafka:9092'",
          'bootstrap: ["kafka:9092"]'),
    Wrong("bootstrap in one text", BROKER.replace('["127.0.0.1:9092"]', '"a:9092, b:9092"'), 4,
          "'a:9092, b:9092'", 'bootstrap: ["a:9092", "b:9092"]'),
    Wrong("bootstrap without a port", BROKER.replace("127.0.0.1:9092", "kafka"), 4, "'kafka'", "host:port"),
    Wrong("bootstrap with a scheme", BROKER.replace("127.0.0.1:9092", "kafka://a:1"), 4, "'kafka://a:1'",
          "host:port"),
    Wrong("a port in quotes", BROKER.replace("19092", '"19092"'), 5, "'19092'", "without quotes: 19092"),
    Wrong("a port for a section", BROKER.replace("{port: 19092}", "19092"), 5, "19092", "host, port"),
    Wrong("a list for a section", BROKER + "admin: [9095]\n", 6, "a list", "host, port"),
    Wrong("a number for text", BROKER.replace("name: main", "name: 5"), 2, "5", '"5"'),
    Wrong("text for a switch", BROKER + '    observe_only: "yes"\n', 6, "'yes'", "true or false"),
    Wrong("topics as a mapping", BROKER + "policies:\n  topics:\n    orders: {max_publish_rate: 5}\n", 7,
          "a mapping", "- name: orders"),
    Wrong("a policy with an equals sign", BROKER + "policies:\n  broker:\n    max_publish_rate = 5\n", 8,
          "'max_publish_rate = 5'", "'key: value'"),
    Wrong("brokers as a mapping", "brokers:\n  main: {system: kafka}\n", 1, "a mapping", "- name: main"),
    of_policy("half a producer", "max_producers_per_topic: 1.5", "1.5", "such as 100"),
    of_policy("a limit as a list", "max_publish_rate: [5]", "[5]", "500/s"),
    Wrong("a name with a space", BROKER.replace("name: main", "name: my broker"), 2,
          "'my broker'", "letters"),
]  # fmt: skip
KEYS = [
    of_policy("a policy misspelled", "max_publish_rte: 5", "'max_publish_rte'", "'max_publish_rate'"),
    Wrong("a key misspelled", BROKER + "    advertized_host: a\n", 6, "'advertized_host'",
          "'advertised_host'"),
    Wrong("a key that is like none", BROKER + "    xyzzy: a\n", 6, "'xyzzy'", "sluicegate schema"),
    Wrong("a policy in a broker's entry", BROKER + "    max_publish_rate: 5\n", 6, "'max_publish_rate'",
          "move it to policies.broker"),
    Wrong("a policy among a broker's own keys", BROKER + "    max_publish_rate: 5\n", 6, "'max_publish_rate'",
          "move it to"),
    Wrong("another topic in an entry", BROKER + "    policies: {topics: [{name: a/b}]}\n", 6, "a/b",
          "on kafka a topic's name has at most 249"),
    Wrong("topics at the top level", BROKER + "topics: []\n", 6, "'topics'", "move it to policies"),
    of_policy("a broker's key among the policies", "max_hold: 5s", "'max_hold'", "move it to brokers.0"),
    of_policy("a merge key", "<<: {max_publish_rate: 5}", "'<<'", "write the keys themselves"),
    Wrong("a system misspelled", BROKER.replace("kafka", "kafak"), 3, "'kafak'", "'kafka'"),
    Wrong("no system", BROKER.replace("    system: kafka\n", ""), 2, "'system'", "system: kafka"),
    Wrong("no brokers", "policies: {}\n", 1, "'brokers'", "brokers:"),
    Wrong("an empty list of brokers", "brokers: []\n", 1, "at least one", "expected here"),
    Wrong("a policy at the wrong level",
          BROKER + "policies:\n  topics:\n    - {name: a, connection_rate_limit: 5}\n", 8,
          "'connection_rate_limit'", "policies.broker"),
    of_policy("dropping what was promised", "on_limit: {max_producers_per_topic: drop}", "'drop'", "acks=0"),
    Wrong("a broker's name twice", BROKER + BROKER.removeprefix("brokers:\n").replace("19092", "29092"), 6,
          "'main'", "line 2"),
    Wrong("a topic twice", BROKER + TOPIC % "a" + "    - name: a\n", 10, "'a'", "line 8"),
    Wrong("a plugin that is missing", BROKER + "plugins:\n  - acme.missing\n", 7, "'acme.missing'",
          "add its folder to PYTHONPATH"),
    Wrong("a variable that fits nothing", BROKER, 1, "'prt'", "'port'",
          environ={"SLUICEGATE__ADMIN__PRT": "1"}),
    Wrong("a variable with a wrong value", BROKER, 1, "'all'", "without quotes",
          environ={"SLUICEGATE__BROKERS__0__OBSERVE_ONLY": "all"}),
    Wrong("a variable beyond the list", BROKER, 1, "'7'", "use 0 to 1",
          environ={"SLUICEGATE__BROKERS__7__NAME": "a"}),
]  # fmt: skip
PORTS = [
    Wrong("a port that is none", BROKER.replace("19092", "70000"), 5, "70000", "up to 65535"),
    Wrong("a node port 0", BROKER + "    node_port_base: 0\n", 6, "0", "not below 1"),
    Wrong("a broker at port 0", BROKER.replace("9092\"", "0\""), 4, "'127.0.0.1:0'", "port 1 to 65535"),
    Wrong("a port in a listener's host", BROKER.replace("{port", '{host: "127.0.0.1:19092", port'), 5,
          "'127.0.0.1:19092'", "without a port"),
    Wrong("a listener's address that is none", BROKER.replace("{port", "{host: 300.1.1.1, port"), 5,
          "'300.1.1.1'", "127.0.0.1"),
    Wrong("a listener's host in brackets", BROKER.replace("{port", '{host: "[::1]", port'), 5,
          "'[::1]'", "::1"),
    Wrong("an advertised port", BROKER + "    advertised_host: gate:9092\n", 6, "'gate:9092'",
          "without a port"),
    Wrong("a port in what the web tells",
          PULSAR + "    admin: {url: 'http://a:8080'}\n    web: {advertised_host: 'gate:8080', "
          "listen: {port: 18080}}\n", 7, "'gate:8080'", "without a port"),
    Wrong("an admin endpoint with a scheme", BROKER + 'admin: {host: "http://localhost"}\n', 6,
          "'http://localhost'", "a host's name"),
    Wrong("two listeners at one port", BROKER + SECOND % 19092, 9, "127.0.0.1:19092", "line 5"),
    Wrong("a listener on all addresses",
          BROKER + (SECOND % 19092).replace("{", "{host: 0.0.0.0, "), 9, "0.0.0.0:19092", "line 5"),
    Wrong("a listener at the admin port", BROKER + "admin: {port: 19092}\n", 6, "127.0.0.1:19092",
          "line 5"),
    Wrong("a listener at the admin's default", BROKER.replace("19092", "9095"), 5, "127.0.0.1:9095",
          "a default"),
    Wrong("the web listener at the listener's port",
          PULSAR + "    admin: {url: 'http://a:8080'}\n    web: {listen: {port: 19092}}\n", 7,
          "127.0.0.1:19092", "line 5"),
    Wrong("ports of nodes at a listener",
          PULSAR.replace('"]', '", "b:1"]') + SECOND % 19094, 9, "127.0.0.1:19094", "default"),
    Wrong("ports of Kafka's nodes at a listener", BROKER + SECOND % 19093, 9, "127.0.0.1:19093",
          "'node_port_base'", "warning"),
    Wrong("ports of nodes beyond the last", PULSAR.replace('"]', '", "b:1"]') + "    node_port_base: 65535\n",
          6, "65535", "2 free ports"),
]  # fmt: skip
TLS = [
    of_tls("no certificate file", "none.pem", "good.key", 8, "none.pem", "the absolute path is"),
    of_tls("a certificate that is a directory", "", "good.key", 8, "Is a directory",
          "permissions"),
    of_tls("the key of another", "good.pem", "other.key", 9, "other.key", "belongs to"),
    of_tls("an encrypted key", "locked.pem", "locked.key", 9, "locked.key", "openssl pkey"),
    of_tls("an expired certificate", "old.pem", "old.key", 8, "old.pem", "renew",
          run_starts=True),
    of_tls("a certificate of tomorrow", "early.pem", "early.key", 8, "early.pem", "clock",
          run_starts=True),
    replace(of_tls("a certificate that expires soon", "good.pem", "good.key", 8, "good.pem", "renew"),
            severity="warning"),
    of_tls("certificate and key exchanged", "good.key", "good.pem", 8, "good.key",
          "swap"),
    of_tls("a certificate for a key", "good.pem", "good.pem", 9, "good.pem", "private key"),
    of_tls("an empty certificate", "empty.pem", "good.key", 8, "empty.pem", "certificate"),
    of_tls("authorities that are none", "good.pem", "good.key\n        client_ca: $TLS/good.key", 10,
           "good.key", "authorities"),
    Wrong("a broker's authority that is missing", BROKER + "    tls: {broker: {ca: $TLS/none.pem}}\n", 6,
          "none.pem", "the absolute path is"),
    of_tls("a broken certificate", "broken.pem", "good.key", 8, "broken.pem", "PEM"),
    Wrong("half a pair", BROKER + "    tls: {broker: {cert: $TLS/good.pem}}\n", 6, "'cert'", "both"),
    Wrong("the login's own certificate",
          BROKER + "    identity:\n      tls:\n        cert: $TLS/good.pem\n        key: $TLS/other.key\n", 9,
          "other.key", "belongs to"),
    of_tls("a further certificate without its file", "good.pem",
           "good.key\n        certificates:\n          - names: [a.b]\n            cert: $TLS/none.pem\n"
           "            key: $TLS/good.key", 12, "none.pem", "the absolute path is"),
    of_tls("a server name that is an address", "good.pem",
           "good.key\n        certificates: [{names: [10.0.0.7], cert: $TLS/good.pem, key: $TLS/good.key}]",
           10, "'10.0.0.7'", "*.example"),
    Wrong("an unknown cipher suite",
          BROKER + "    tls:\n      broker:\n        ciphers:\n          - ECDHE-RSA-AES128-GCM-SHA265\n", 9,
          "'ECDHE-RSA-AES128-GCM-SHA265'", "'ECDHE-RSA-AES128-GCM-SHA256'"),
    Wrong("an unknown version of TLS", BROKER + "    tls: {broker: {min_version: TLSv1.4}}\n", 6, "'TLSv1.4'",
          "TLSv1.3"),
    Wrong("a version of TLS as a number", BROKER + "    tls: {broker: {min_version: 1.2}}\n", 6, "1.2",
          "TLSv1.2"),
]  # fmt: skip
PLACES = [
    Wrong("a state directory with too long a name", BROKER + f"state_dir: {'s' * 300}\n", 6, "too long",
          "name a directory"),
    Wrong("a state directory that is no name", BROKER + 'state_dir: "a\\0b"\n', 6, "null byte",
          "name a directory"),
    Wrong("a state directory that is a file", BROKER + "state_dir: gateway.yaml\n", 6, "'gateway.yaml'",
          "directory"),
    Wrong("a log below a file", BROKER + "decisions:\n  directory: gateway.yaml/log\n", 7,
          "'gateway.yaml/log'", "directory"),
    Wrong("a store with too long a name", BROKER + f"store: sqlite:///{'s' * 300}\n", 6, "too long",
          "check the path", run_starts=True),
    Wrong("a store of no kind", BROKER + "store: postgres://db\n", 6, "'postgres://db'", "sqlite:///",
          run_starts=True),
    Wrong("a store in etcd with a mistyped option", BROKER + "store: etcd://a/x?timout=1s\n", 6, "'timout'",
          "timeout", run_starts=True),
    Wrong("a store in etcd with TLS files and no TLS", BROKER + "store: etcd://a/x?ca=ca.pem\n", 6,
          "requires TLS", "etcds://", run_starts=True),
]  # fmt: skip
NAMES = [
    Wrong("a Pulsar topic at Kafka", BROKER + TOPIC % "persistent://public/default/a", 8,
          "'persistent://public/default/a'", "on kafka"),
    Wrong("a pattern of Pulsar at Kafka", BROKER + TOPIC % '"persistent://public/*"', 8,
          "'persistent://public/*'", "on kafka"),
    Wrong("a topic as a namespace at Kafka", BROKER + NAMESPACE % "orders.eu", 8, "'orders.eu'",
          "before the first '.'"),
    Wrong("a namespace without its tenant at Pulsar", PULSAR + NAMESPACE % "orders", 8, "'orders'",
          "'public/default'"),
    Wrong("a Danube topic at Pulsar", PULSAR + TOPIC % "/default/orders", 8, "'/default/orders'",
          "on pulsar"),
    Wrong("a Kafka topic at Danube", DANUBE + TOPIC % "orders.eu", 8, "'orders.eu'", "'/default/orders'"),
]  # fmt: skip
EFFECTS = [
    Wrong("a limit above the ceiling of its level",
          POLICY + "max_publish_rate: 500\n    ceiling: {max_publish_rate: 100}\n", 8, "500/s",
          "or raise the ceiling", "warning"),
    Wrong("no limit below a ceiling",
          POLICY + "ceiling: {max_publish_rate: 100}\n  topics:\n    - {name: a, max_publish_rate: 0}\n", 10,
          "unlimited", "or raise the ceiling", "warning"),
    Wrong("a pattern above the ceiling",
          POLICY + "ceiling: {max_publish_rate: 9}\n" + (TOPIC % "a.*").removeprefix("policies:\n"),
          11, "50/s", "or raise the ceiling", "warning"),
    of_policy("a policy that Kafka cannot apply", "max_unacked_messages_per_consumer: 5",
              "'max_unacked_messages_per_consumer'", "remove it", "warning"),
    of_policy("a limit on volumes that nothing reads", "storage_hard_consumed_bytes: 5GiB",
              "'storage_hard_consumed_bytes'", "add the section", "warning"),
]  # fmt: skip
WHOLE = [
    Wrong("an empty file", "", 1, "empty", "name a broker"),
    Wrong("a file of comments", "# brokers:\n", 1, "empty", "name a broker"),
    Wrong("a file that is a list", "- name: main\n", 1, "a mapping", "brokers:"),
    Wrong("a file in Latin-1", BROKER.encode() + b"state_dir: caf\xe9\n", 6, "0xe9", "UTF-8"),
    Wrong("a file in UTF-16", BROKER.encode("utf-16"), 1, "0xff", "UTF-8"),
    Wrong("a control character", BROKER + "state_dir: a\x00b\n", 6, "#x0000", "delete it"),
    Wrong("a mistake after a byte order mark", b"\xef\xbb\xbfbrokrs: []\n", 1, "'brokrs'", "'brokers'",
          is_alone=False),
    Wrong("a mistake between Windows' line ends",
          (POLICY + "max_publish_rate: 5 MB\n").replace("\n", "\r\n"), 8, "'5 MB'",
          "max_publish_rate_bytes: 5 MB"),
]  # fmt: skip
WRONG = [*UNITS, *SYNTAX, *TYPES, *KEYS, *PORTS, *TLS, *PLACES, *NAMES, *EFFECTS, *WHOLE]
