"""A certificate authority for tests."""

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.real.certificates import key_extensions

_NOT = datetime.timedelta()


class Authority:
    """Signs certificates into a directory.

    :param directory: where `NAME.pem` and `NAME.key` go; the authority's own are `ca.pem` and `ca.key`.
    :param name: its own; two in one file of trusted authorities need different ones.
    """

    def __init__(self, directory: Path, name: str = "test authority") -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.ca = self._write("ca", self._key, self._sign("ca", self._key, is_ca=True))

    def issue(
        self, name: str, host: str, *, shifted_by: datetime.timedelta = _NOT, passphrase: str = ""
    ) -> tuple[str, str]:
        """Files of a certificate for a host name or address, and of its key.

        :param shifted_by: moves the two hours in which it is valid, now in their middle.
        :param passphrase: encrypts the key.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        self._write(name, key, self._sign(host, key, is_ca=False, shifted_by=shifted_by), passphrase)
        return str(self._directory / f"{name}.pem"), str(self._directory / f"{name}.key")

    def _sign(
        self,
        host: str,
        key: ec.EllipticCurvePrivateKey,
        *,
        is_ca: bool,
        shifted_by: datetime.timedelta = _NOT,
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC) + shifted_by
        subject = self._name if is_ca else x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
        try:
            name: x509.GeneralName = x509.IPAddress(ipaddress.ip_address(host))
        except ValueError:
            name = x509.DNSName(host)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(hours=1))
            .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName([name]), critical=False)
        )
        for extension in key_extensions(self._key.public_key(), key.public_key(), is_ca=is_ca):
            builder = builder.add_extension(extension, critical=isinstance(extension, x509.KeyUsage))
        return builder.sign(self._key, hashes.SHA256())

    def _write(
        self,
        name: str,
        key: ec.EllipticCurvePrivateKey,
        certificate: x509.Certificate,
        passphrase: str = "",
    ) -> str:
        pem = serialization.Encoding.PEM
        path = self._directory / f"{name}.pem"
        path.write_bytes(certificate.public_bytes(pem))
        how = (
            serialization.BestAvailableEncryption(passphrase.encode())
            if passphrase
            else serialization.NoEncryption()
        )
        private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, how)
        (self._directory / f"{name}.key").write_bytes(private)
        return str(path)
