"""A real S3 service for tests: SeaweedFS on free ports."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import obstore
import pytest
from obstore.exceptions import BaseError

from hpo_ops.checkpoints import Credentials, open_store
from hpo_ops.stack._free_ports import choose_port

BUCKET = "hpo"
KEY, SECRET = "key", "secret"
START_SECONDS = 60.0
PORT_CHOICES = 5
SERVERS = ("s3", "master", "volume", "filer", "admin")
GRPC = 10_000
"""Each server listens on a second port for gRPC, so far above the first."""
OFFSETS = [index + grpc for index in range(len(SERVERS)) for grpc in (0, GRPC)]


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
    process, credentials = _start(folder)
    try:
        yield credentials
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _start(folder: Path) -> tuple[subprocess.Popen[bytes], Credentials]:
    """Starts the service, on other ports if somebody takes one before the service does."""
    log = folder / "weed.log"
    for _ in range(PORT_CHOICES):
        port = choose_port(0, offsets=OFFSETS)
        process = _launch(folder, log, port)
        credentials = Credentials(
            access_key_id=KEY, secret_access_key=SECRET, endpoint=f"http://127.0.0.1:{port}"
        )
        try:
            _make_bucket(credentials, process, log)
        except RuntimeError as error:
            process.kill()
            process.wait()
            if "address already in use" not in str(error):
                raise
        except BaseException:
            process.kill()
            process.wait()
            raise
        else:
            return process, credentials
    raise RuntimeError(f"S3 found its ports taken {PORT_CHOICES} times")


def _launch(folder: Path, log: Path, port: int) -> subprocess.Popen[bytes]:
    ports = [f"-{name}.port={port + index}" for index, name in enumerate(SERVERS)]
    with log.open("wb") as stream:
        return subprocess.Popen(
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
