"""Creates TLS certificates for a server whose only client is the server itself.

A new certificate authority signs one certificate, for use as server and client. The private key of
the authority is then discarded, so the authority can never sign another certificate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from hpo_ops.stack.stack_files import write_private

LIFETIME = timedelta(days=3650)
RENEWAL = timedelta(days=90)
"""Certificates that expire within this time are replaced when the server starts."""
_CLOCK_SKEW = timedelta(hours=1)


@dataclass(frozen=True)
class CertificateFiles:
    """The files of a certificate authority, its only certificate, and the certificate's key."""

    folder: Path

    @property
    def authority(self) -> Path:
        return self.folder / "ca.pem"

    @property
    def certificate(self) -> Path:
        return self.folder / "cert.pem"

    @property
    def key(self) -> Path:
        return self.folder / "key.pem"


def ensure_certificates(
    folder: Path, hosts: Sequence[str], *, now: datetime | None = None
) -> CertificateFiles:
    """Creates the certificates of a server unless the folder contains valid certificates.

    Args:
        folder: The folder of the certificates; if missing, it is created with access for its
            owner only.
        hosts: Host names and IP addresses of the server.
        now: The time to check validity at; None for the current time.
    """
    files, now = CertificateFiles(folder), now or datetime.now(UTC)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not _are_valid(files, hosts, now):
        _make(files, hosts, now)
    return files


def _are_valid(files: CertificateFiles, hosts: Sequence[str], now: datetime) -> bool:
    """Returns whether the certificates can be used.

    All files must exist, the authority must have signed the certificate, the certificate must name
    all hosts, and neither certificate may expire within the time `RENEWAL`.
    """
    try:
        authority = x509.load_pem_x509_certificate(files.authority.read_bytes())
        certificate = x509.load_pem_x509_certificate(files.certificate.read_bytes())
        certificate.verify_directly_issued_by(authority)
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (OSError, ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound):
        return False
    lasts = min(authority.not_valid_after_utc, certificate.not_valid_after_utc) - now
    return files.key.is_file() and lasts > RENEWAL and set(_names(hosts)) <= set(names)


def _make(files: CertificateFiles, hosts: Sequence[str], now: datetime) -> None:
    authority_key = ec.generate_private_key(ec.SECP256R1())
    key = ec.generate_private_key(ec.SECP256R1())
    issuer = _name("hpo-ops object store authority")
    authority = (
        _builder(issuer, issuer, authority_key.public_key(), now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    usage = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    certificate = (
        _builder(_name("hpo-ops object store"), issuer, key.public_key(), now)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage(usage), critical=False)
        .add_extension(x509.SubjectAlternativeName(_names(hosts)), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    write_private(files.authority, authority.public_bytes(Encoding.PEM).decode())
    write_private(files.certificate, certificate.public_bytes(Encoding.PEM).decode())
    write_private(files.key, private.decode())


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + LIFETIME)
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _names(hosts: Sequence[str]) -> list[x509.GeneralName]:
    return [_general_name(host) for host in dict.fromkeys(hosts)]


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)
