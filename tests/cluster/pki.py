"""Keys and certificates of one cluster, and the kubeconfig of its administrator."""

from __future__ import annotations

import base64
import datetime
import json
from collections.abc import Sequence
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_LIFE = datetime.timedelta(days=365)


class Authority:
    """Signs the certificates of one cluster and keeps them in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("hpo-ops test cluster")
        folder.mkdir(mode=0o700)
        certificate = self._sign(
            self._name,
            self._key.public_key(),
            x509.BasicConstraints(ca=True, path_length=None),
        )
        self._certificate = _pem(certificate)
        (folder / "ca.crt").write_bytes(self._certificate)
        self._write_key("ca", self._key)

    def make_service_account_key(self) -> None:
        """Makes the key that signs the tokens of pods."""
        key = ec.generate_private_key(ec.SECP256R1())
        self._write_key("sa", key)
        public = key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        (self._folder / "sa.pub").write_bytes(public)

    def make_server(self, name: str, *, addresses: Sequence[str]) -> None:
        """Makes the certificate of a server."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = [
            x509.DNSName(name),
            x509.DNSName("localhost"),
            *(x509.IPAddress(ip_address(address)) for address in addresses),
        ]
        certificate = self._sign(
            _name(name),
            key.public_key(),
            x509.SubjectAlternativeName(names),
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]),
        )
        (self._folder / f"{name}.crt").write_bytes(_pem(certificate))
        self._write_key(name, key)

    def make_client(self, name: str, *, group: str) -> None:
        """Makes the certificate of a user."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._sign(
            _name(name, group=group),
            key.public_key(),
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]),
        )
        (self._folder / f"{name}.crt").write_bytes(_pem(certificate))
        self._write_key(name, key)

    def write_kubeconfig(self, path: Path, *, server: str, user: str) -> None:
        """Writes a kubeconfig that needs no other file. It is JSON, and so YAML."""

        def embed(name: str) -> str:
            return base64.b64encode((self._folder / name).read_bytes()).decode()

        name = "hpo-ops"
        cluster = {"server": server, "certificate-authority-data": embed("ca.crt")}
        credentials = {
            "client-certificate-data": embed(f"{user}.crt"),
            "client-key-data": embed(f"{user}.key"),
        }
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": name, "cluster": cluster}],
            "users": [{"name": user, "user": credentials}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": user}}],
            "current-context": name,
        }
        path.touch(mode=0o600)
        path.write_text(json.dumps(content, indent=1), encoding="utf-8")

    def _sign(
        self, name: x509.Name, key: ec.EllipticCurvePublicKey, *extensions: x509.ExtensionType
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + _LIFE)
        )
        for extension in extensions:
            builder = builder.add_extension(extension, critical=False)
        return builder.sign(self._key, hashes.SHA256())

    def _write_key(self, name: str, key: ec.EllipticCurvePrivateKey) -> None:
        path = self._folder / f"{name}.key"
        path.touch(mode=0o600)
        path.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                # Kubernetes reads the keys of service accounts in this format only.
                serialization.PrivateFormat.TraditionalOpenSSL,
                serialization.NoEncryption(),
            )
        )


def _name(name: str, *, group: str | None = None) -> x509.Name:
    parts = [x509.NameAttribute(NameOID.COMMON_NAME, name)]
    if group is not None:
        parts.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, group))
    return x509.Name(parts)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
