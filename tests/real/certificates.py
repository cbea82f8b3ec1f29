"""A certificate authority that lives for one test run, for TLS to brokers and to the gate."""

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_DAY = datetime.timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Identity:
    """A certificate and its key, as PEM files."""

    certificate: Path
    key: Path


class Authority:
    """Issues certificates that all name 127.0.0.1 and localhost; everything lies in `directory`."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("sluicegate test authority")
        constraints = x509.BasicConstraints(ca=True, path_length=0)
        builder = self._builder(self._name, self._key, is_ca=True).add_extension(constraints, critical=True)
        self._certificate = builder.sign(self._key, hashes.SHA256())
        self.certificate = directory / "ca.pem"
        """PEM file of the authority's own certificate: what clients trust."""
        self.certificate.write_bytes(_pem(self._certificate))

    def issue(self, common_name: str) -> Identity:
        """A new identity for a server or a client; `common_name` becomes its principal with mTLS."""
        key = ec.generate_private_key(ec.SECP256R1())
        alternatives = [x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("localhost")]
        certificate = (
            self._builder(_name(common_name), key)
            .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        key_pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        identity = Identity(*(self._directory / f"{common_name}.{kind}.pem" for kind in ("crt", "key")))
        identity.certificate.write_bytes(_pem(certificate))
        identity.key.write_bytes(key_pem)
        return identity

    def _builder(
        self, name: x509.Name, key: ec.EllipticCurvePrivateKey, *, is_ca: bool = False
    ) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _DAY)
            .not_valid_after(now + _DAY)
        )
        for extension in key_extensions(self._key.public_key(), key.public_key(), is_ca=is_ca):
            builder = builder.add_extension(extension, critical=isinstance(extension, x509.KeyUsage))
        return builder


def key_extensions(
    issuer: ec.EllipticCurvePublicKey, subject: ec.EllipticCurvePublicKey, *, is_ca: bool
) -> list[x509.ExtensionType]:
    """What RFC 5280 (sections 4.2.1.1 to 4.2.1.3) asks for about keys; Python 3.13 insists on it."""
    found: list[x509.ExtensionType] = [
        x509.SubjectKeyIdentifier.from_public_key(subject),
        x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer),
    ]
    if is_ca:
        signs = {"key_cert_sign": True, "crl_sign": True}
        others = ("digital_signature", "content_commitment", "key_encipherment", "data_encipherment")
        unused = dict.fromkeys((*others, "key_agreement", "encipher_only", "decipher_only"), False)
        found.append(x509.KeyUsage(**signs, **unused))
    return found


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
