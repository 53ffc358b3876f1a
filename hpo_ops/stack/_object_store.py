"""Configures the S3 server of a stack: SeaweedFS in one process, on the loopback interface."""

from __future__ import annotations

import secrets as random_secrets
from urllib.parse import urlsplit

from obstore.exceptions import BaseError
from obstore.store import S3Store

from hpo_ops.stack._free_ports import LOOPBACK
from hpo_ops.stack._object_store_security import StoreSecurity
from hpo_ops.stack.stack_files import Layout
from hpo_ops.stack.stack_secrets import Secrets

BUCKET = "hpo"
REGION = "us-east-1"

# Ports of the S3 server and of its four internal servers, and the gRPC port of each.
PORT_OFFSETS = (0, 1, 2, 3, 4, 10_000, 10_001, 10_002, 10_003, 10_004)


class ObjectStore:
    """The S3 server of one stack: its command, environment and health check."""

    def __init__(self, layout: Layout, secrets: Secrets, *, port: int) -> None:
        self._layout = layout
        self._secrets = secrets
        self._port = port
        self._security = StoreSecurity(layout.s3_security)

    @property
    def endpoint(self) -> str:
        return f"http://{LOOPBACK}:{self._port}"

    def command(self) -> list[str]:
        """Returns the command line that runs the server in the foreground."""
        ports = {
            name: self._port + offset
            for offset, name in enumerate(("s3", "master", "volume", "filer", "admin"))
        }
        return self._security.command(
            [
                f"-dir={self._layout.s3}",
                f"-ip={LOOPBACK}",
                f"-ip.bind={LOOPBACK}",
                *(f"-{name}.port={port}" for name, port in ports.items()),
                *(f"-{name}.port.grpc={port + 10_000}" for name, port in ports.items()),
                f"-bucket={BUCKET}",
            ]
        )

    def prepare(self) -> None:
        """Writes the server's certificates and security settings; call this before each start."""
        self._security.prepare(
            access_key=self._secrets.s3_access_key, hosts=[LOOPBACK, "localhost"]
        )

    def environment(self) -> dict[str, str]:
        """Returns the additional environment variables of the server."""
        return {
            "AWS_ACCESS_KEY_ID": self._secrets.s3_access_key,
            "AWS_SECRET_ACCESS_KEY": self._secrets.s3_secret_key,
            "GOMEMLIMIT": "300MiB",
        }

    def store(self) -> S3Store:
        """Returns a client of the platform's bucket with a short timeout and no retries."""
        scheme = urlsplit(self.endpoint).scheme
        return S3Store(
            BUCKET,
            endpoint=self.endpoint,
            access_key_id=self._secrets.s3_access_key,
            secret_access_key=self._secrets.s3_secret_key,
            region=REGION,
            virtual_hosted_style_request=False,
            client_options={"allow_http": scheme == "http", "timeout": "5s"},
            retry_config={"max_retries": 0},
        )

    def is_healthy(self) -> bool:
        """Returns whether an object can be written to the server and read back.

        An open port is not enough: the server opens it long before it can store objects.
        """
        name = f".probe/{random_secrets.token_hex(4)}"
        try:
            store = self.store()
            store.put(name, name.encode())
            is_same = bytes(store.get(name).bytes()) == name.encode()
            store.delete(name)
        except (BaseError, OSError):
            return False
        return is_same
