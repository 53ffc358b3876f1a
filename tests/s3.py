"""A real S3 service for tests: SeaweedFS on free ports."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import obstore
import pytest
from obstore.exceptions import BaseError

from hpo_ops.checkpoints import Credentials, open_store

BUCKET = "hpo"
KEY, SECRET = "key", "secret"
START_SECONDS = 60.0


@pytest.fixture(scope="session")
def s3_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the S3 service of these tests keeps everything."""
    return tmp_path_factory.mktemp("s3")


@pytest.fixture(scope="session")
def s3(s3_folder: Path) -> Iterator[Credentials]:
    with running_s3(s3_folder) as credentials:
        yield credentials


@contextmanager
def running_s3(folder: Path) -> Iterator[Credentials]:
    """Runs an S3 service with one bucket; yields how to reach it."""
    port = _free_ports()
    ports = [
        f"-{name}.port={port + index}"
        for index, name in enumerate(("s3", "master", "volume", "filer", "admin"))
    ]
    log = folder / "weed.log"
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [
                sys.executable, "-m", "hpo_ops.stack.serve_object_store",
                f"--security={folder / 'security'}", "--host=127.0.0.1", "--",
                f"-dir={folder}", "-ip.bind=127.0.0.1", *ports,
            ],
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(folder),
                "GOMEMLIMIT": "300MiB",
                "AWS_ACCESS_KEY_ID": KEY,
                "AWS_SECRET_ACCESS_KEY": SECRET,
            },
            stdout=stream,
            stderr=stream,
            cwd=folder,
        )  # fmt: skip
    credentials = Credentials(
        access_key_id=KEY, secret_access_key=SECRET, endpoint=f"http://127.0.0.1:{port}"
    )
    try:
        _make_bucket(credentials, process, log)
        yield credentials
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _make_bucket(credentials: Credentials, process: subprocess.Popen[bytes], log: Path) -> None:
    """Waits for the service with real requests: its port answers before it is ready."""
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError

    client = boto3.client(
        "s3",
        endpoint_url=credentials.endpoint,
        aws_access_key_id=credentials.access_key_id,
        aws_secret_access_key=credentials.secret_access_key,
        region_name=credentials.region,
    )
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            client.create_bucket(Bucket=BUCKET)
            store = open_store(f"s3://{BUCKET}", credentials)
            obstore.put(store, "probe", b"1")
            obstore.get(store, "probe").bytes()
            obstore.delete(store, "probe")
        except (BotoCoreError, ClientError, BaseError, OSError) as error:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"S3 did not start: {log.read_text()[-2000:]}") from error
            threading.Event().wait(0.2)
        else:
            return


def _free_ports() -> int:
    """The first of five ports that are free, and free as well with 10000 added (gRPC)."""
    for _ in range(100):
        with ExitStack() as stack:
            probe = stack.enter_context(socket.socket())
            probe.bind(("127.0.0.1", 0))
            first = int(probe.getsockname()[1]) % 30_000 + 15_000
            try:
                for port in range(first, first + 5):
                    for number in (port, port + 10_000):
                        stack.enter_context(socket.socket()).bind(("127.0.0.1", number))
            except OSError:
                continue
            return first
    raise RuntimeError("no free ports")
