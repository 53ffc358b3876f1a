"""Attacks on a running SeaweedFS by somebody who reaches its ports and sockets, without keys."""

from __future__ import annotations

import socket
import ssl
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import obstore
import psutil
import pytest
from obstore.exceptions import BaseError

from hpo_ops.checkpoints import Credentials, open_store
from tests.s3 import BUCKET

pytestmark = pytest.mark.e2e

SECRET = b"the weights of a victim's model"
SECONDS = 3.0
BODY = "--x\r\nContent-Disposition: form-data; name=file; filename=evil\r\n\r\nevil\r\n--x--\r\n"
FORM = f"Content-Type: multipart/form-data; boundary=x\r\nContent-Length: {len(BODY)}\r\n"
REQUESTS = {
    "read the root": "GET / HTTP/1.1\r\n{}\r\n",
    "list the bucket": f"GET /buckets/{BUCKET}/ HTTP/1.1\r\n{{}}\r\n",
    "read an object from the filer": f"GET /buckets/{BUCKET}/victim HTTP/1.1\r\n{{}}\r\n",
    "read an object from S3": f"GET /{BUCKET}/victim HTTP/1.1\r\n{{}}\r\n",
    "write to the filer": f"POST /buckets/{BUCKET}/evil HTTP/1.1\r\n{{}}{FORM}\r\n{BODY}",
    "write to S3": f"PUT /{BUCKET}/evil HTTP/1.1\r\n{{}}Content-Length: 4\r\n\r\nevil",
    "delete by the filer": f"DELETE /buckets/{BUCKET}/victim HTTP/1.1\r\n{{}}\r\n",
    "a place to write to": "GET /dir/assign HTTP/1.1\r\n{}\r\n",
    "where a volume is": "GET /dir/lookup?volumeId=1 HTTP/1.1\r\n{}\r\n",
    "write by the master": f"POST /submit HTTP/1.1\r\n{{}}{FORM}\r\n{BODY}",
    "the state of the disks": "GET /stats/disk HTTP/1.1\r\n{}\r\n",
    "the pages of the servers": "GET /ui/index.html HTTP/1.1\r\n{}\r\n",
}
HTTP2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\x04\0\0\0\0\0"
"""How every gRPC client begins."""
Address = tuple[str, int] | str


def listening(endpoint: str) -> list[Address]:
    """Everything that the server behind an S3 endpoint listens on: ports and unix sockets."""
    wanted = urlsplit(endpoint).port
    for process in psutil.process_iter():
        try:
            ports = [
                item.laddr
                for item in process.net_connections("tcp")
                if item.status == psutil.CONN_LISTEN
            ]
            if wanted in {address.port for address in ports}:
                sockets = {item.laddr for item in process.net_connections("unix") if item.laddr}
                return [*((address.ip, address.port) for address in ports), *sorted(sockets)]
        except psutil.Error:
            continue
    raise LookupError(f"nobody listens on {endpoint}")


def connect(address: Address) -> socket.socket:
    is_unix = isinstance(address, str)
    opened = socket.socket(socket.AF_UNIX if is_unix else socket.AF_INET, socket.SOCK_STREAM)
    opened.settimeout(SECONDS)
    opened.connect(address)
    return opened


def ask(address: Address, request: bytes, *, tls: ssl.SSLContext | None = None) -> bytes:
    """What comes back: nothing where the connection is closed or reset."""
    answer = b""
    try:
        with connect(address) as plain:
            opened = tls.wrap_socket(plain) if tls else plain
            with opened:
                opened.sendall(request)
                while len(answer) < 100_000 and (part := opened.recv(65536)):
                    answer += part
    except (OSError, ssl.SSLError):
        pass
    return answer


def stranger(*protocols: str) -> ssl.SSLContext:
    """TLS as somebody speaks it who has no certificate and does not mind the server's."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if protocols:
        context.set_alpn_protocols(protocols)
    return context


def succeeds(answer: bytes) -> bool:
    """Whether HTTP was answered by something else than a refusal."""
    return answer.startswith(b"HTTP/1") and int(answer.split(b" ", 2)[1]) < 400


@pytest.fixture(scope="module")
def victim(s3: Credentials) -> Iterator[Credentials]:
    obstore.put(open_store(f"s3://{BUCKET}", s3), "victim", SECRET)
    yield s3
    obstore.delete(open_store(f"s3://{BUCKET}", s3), "victim")


def test_nothing_is_read_or_written_without_keys_on_any_port_or_socket(
    victim: Credentials,
) -> None:
    tls, headers = stranger(), "Host: localhost\r\nConnection: close\r\n"
    addresses = listening(victim.endpoint or "")
    assert len(addresses) >= 10

    got_through = []
    for address in addresses:
        for what, request in REQUESTS.items():
            sent = request.format(headers).encode()
            plain, secured = ask(address, sent), ask(address, sent, tls=tls)
            if succeeds(plain) or SECRET in plain:
                got_through.append((address, "http", what))
            if secured.startswith(b"HTTP/"):
                got_through.append((address, "https without a certificate", what))

    assert got_through == []
    store = open_store(f"s3://{BUCKET}", victim)
    assert bytes(obstore.get(store, "victim").bytes()) == SECRET
    assert not [item for page in obstore.list(store, "evil") for item in page]


def test_the_servers_answer_whoever_has_the_certificate(
    victim: Credentials, s3_folder: Path
) -> None:
    """So what is refused above is refused for want of it."""
    tls, files = stranger(), s3_folder / "security"
    tls.load_cert_chain(files / "cert.pem", files / "key.pem")
    request = b"GET /dir/assign HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"

    answers = [ask(address, request, tls=tls) for address in listening(victim.endpoint or "")]

    assert any(succeeds(answer) and b'"fid"' in answer for answer in answers)


def test_grpc_answers_nobody_without_a_certificate(victim: Credentials) -> None:
    answered = []
    for address in listening(victim.endpoint or ""):
        plain = ask(address, HTTP2)
        if plain[3:4] == b"\x04":  # a frame of settings: the server goes on talking
            answered.append((address, "in the clear"))
        if ask(address, HTTP2, tls=stranger("h2")):
            answered.append((address, "by TLS"))

    assert answered == []


@pytest.mark.parametrize(
    "changes",
    [{"secret_access_key": "wrong"}, {"access_key_id": "wrong"}],
    ids=["a wrong secret", "an unknown key"],
)
def test_s3_asks_for_the_right_keys(victim: Credentials, changes: dict[str, str]) -> None:
    store = open_store(f"s3://{BUCKET}", replace(victim, **changes))

    with pytest.raises((BaseError, PermissionError)):
        obstore.get(store, "victim")
    with pytest.raises((BaseError, PermissionError)):
        obstore.put(store, "evil", b"evil")
    with pytest.raises((BaseError, PermissionError)):
        obstore.list_with_delimiter(store)


def test_certificates_and_settings_are_their_owner_s(s3_folder: Path) -> None:
    security = s3_folder / "security"
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in security.iterdir()}

    assert stat.S_IMODE(security.stat().st_mode) == 0o700
    assert {"key.pem", "security.toml", "iam.json", "session_key"} <= modes.keys()
    assert set(modes.values()) == {0o600}
