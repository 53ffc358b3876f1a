from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509

from hpo_ops.stack._certificates import LIFETIME, RENEWAL, ensure_certificates

NOW = datetime(2026, 11, 18, tzinfo=UTC)
HOSTS = ["s3", "127.0.0.1"]


def test_certificates_stay_while_they_are_good(tmp_path: Path) -> None:
    made = ensure_certificates(tmp_path, HOSTS, now=NOW).certificate.read_bytes()

    assert ensure_certificates(tmp_path, ["s3"], now=NOW).certificate.read_bytes() == made


def test_certificates_are_replaced_before_they_end(tmp_path: Path) -> None:
    made = ensure_certificates(tmp_path, HOSTS, now=NOW).certificate.read_bytes()
    late = NOW + LIFETIME - RENEWAL

    files = ensure_certificates(tmp_path, HOSTS, now=late)

    assert files.certificate.read_bytes() != made
    again = x509.load_pem_x509_certificate(files.certificate.read_bytes())
    assert again.not_valid_after_utc == late + LIFETIME


def test_certificates_are_replaced_when_a_host_or_a_file_is_missing(tmp_path: Path) -> None:
    files = ensure_certificates(tmp_path, HOSTS, now=NOW)
    made = files.certificate.read_bytes()

    assert ensure_certificates(tmp_path, ["elsewhere"], now=NOW).certificate.read_bytes() != made
    files.authority.write_text("torn")
    ensure_certificates(tmp_path, HOSTS, now=NOW)
    assert x509.load_pem_x509_certificate(files.authority.read_bytes())


def test_nobody_keeps_the_key_of_the_authority(tmp_path: Path) -> None:
    ensure_certificates(tmp_path, HOSTS, now=NOW)

    keys = [path.name for path in tmp_path.iterdir() if b"PRIVATE KEY" in path.read_bytes()]
    assert keys == ["key.pem"]
