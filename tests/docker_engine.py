"""A Docker Engine of the tests' own: started from Debian's package, in a temporary folder."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

import hpo_ops
from tests.cluster.availability import is_required

IMAGE = "localhost/hpo-ops-test:1"
PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"
PR_SET_PDEATHSIG = 1
START_SECONDS = 60.0
STOP_SECONDS = 30.0
DRIVERS = ("overlay2", "vfs")
"""Storage drivers to try; overlay2 does not work on top of every file system."""
NOT_NEEDED = {"idlelib", "lib2to3", "site-packages", "test", "tests", "tkinter"}
SDK = ("__init__.py", "_version.py", "py.typed", "sdk", "protocol")
"""The parts of hpo_ops that trainings import."""


class EngineUnavailableError(Exception):
    """No Docker Engine can be started here; the message says why."""


@dataclass(frozen=True)
class TestEngine:
    """A running engine that has the image `IMAGE`.

    Attributes:
        host: Its address, as in ``DOCKER_HOST``.
        folder: Holds all its files.
    """

    __test__ = False

    host: str
    folder: Path

    @property
    def socket(self) -> str:
        return self.host.removeprefix("unix://")


@pytest.fixture(scope="session")
def docker_engine() -> Iterator[TestEngine]:
    """An engine for all tests of this process; skips, or fails where tests must not skip."""
    try:
        with running_engine() as engine:
            yield engine
    except EngineUnavailableError as error:
        reason = f"no Docker Engine: {error}"
        if is_required():
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)


@contextmanager
def running_engine() -> Iterator[TestEngine]:
    """Starts an engine and gives it the image; nothing of it is left afterwards.

    Raises:
        EngineUnavailableError: This machine cannot run one.
    """
    if os.geteuid() != 0:
        raise EngineUnavailableError("only root can start one")
    if shutil.which("dockerd") is None:
        raise EngineUnavailableError("there is no command dockerd (apt-get install docker.io)")
    # Short, since the path of a socket has at most 107 characters.
    folder = Path(tempfile.mkdtemp(prefix="hpo-dk-", dir="/tmp"))
    try:
        folder.chmod(0o755)
        engine, process = _start(folder)
        try:
            _import_image(engine)
            yield engine
        finally:
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _start(folder: Path) -> tuple[TestEngine, subprocess.Popen[bytes]]:
    log = folder / "dockerd.log"
    for driver in DRIVERS:
        engine = TestEngine(f"unix://{folder}/sock", folder)
        command = [
            *("dockerd", "--host", engine.host, "--storage-driver", driver),
            *("--data-root", str(folder / "data"), "--exec-root", str(folder / "exec")),
            *("--pidfile", str(folder / "pid"), "--config-file", str(folder / "daemon.json")),
            *("--iptables=false", "--ip6tables=false", "--bridge=none"),
        ]
        (folder / "daemon.json").write_text("{}")
        with log.open("ab") as output:
            process = subprocess.Popen(
                command, stdout=output, stderr=output, preexec_fn=_end_with_parent
            )
        if _answers(engine, process):
            return engine, process
        process.kill()
        process.wait()
        shutil.rmtree(folder / "data", ignore_errors=True)
    lines = log.read_text(errors="replace").splitlines()[-5:]
    raise EngineUnavailableError("dockerd does not start here: " + " | ".join(lines))


def _end_with_parent() -> None:
    """Lets the kernel end this process, with its containers, when the tests are killed."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def _answers(engine: TestEngine, process: subprocess.Popen[bytes]) -> bool:
    give_up_at = time.monotonic() + START_SECONDS
    with _client(engine) as client:
        while process.poll() is None and time.monotonic() < give_up_at:
            try:
                if client.get("/_ping").is_success:
                    return True
            except httpx.TransportError:
                time.sleep(0.1)
    return False


def _client(engine: TestEngine) -> httpx.Client:
    transport = httpx.HTTPTransport(uds=engine.socket)
    return httpx.Client(transport=transport, base_url="http://docker", timeout=120)


def _import_image(engine: TestEngine) -> None:
    """Makes an image of the Python that runs the tests, and of what trainings import."""
    archive = engine.folder / "image.tar"
    write_python(archive)
    name, _, tag = IMAGE.rpartition(":")
    query = {"fromSrc": "-", "repo": name, "tag": tag}
    with _client(engine) as client, archive.open("rb") as stream:
        answer = client.post("/images/create", params=query, content=stream)
    archive.unlink()
    if answer.is_error or '"error"' in answer.text:
        raise EngineUnavailableError(f"the image was not taken: {answer.text}")


def write_python(archive: Path) -> None:
    """Packs a file system of a Python without packages: its program, library and shared objects.

    It is the Python of the tests, at the same paths, and the SDK among its packages.
    """
    program = Path(sys.base_prefix, "bin", PYTHON).resolve()
    library = Path(sysconfig.get_path("stdlib", vars={"installed_base": sys.base_prefix}))
    extensions = list((library / "lib-dynload").glob("*.so"))
    with tarfile.open(archive, "w") as packed:
        for name in ("bin", "dev", "etc", "proc", "sys"):
            _add_folder(packed, name)
        _add_folder(packed, "tmp", mode=0o1777)
        packed.add(program, arcname=f"usr/local/bin/{PYTHON}")
        for name in ("python", "python3"):
            _add_link(packed, f"usr/local/bin/{name}", PYTHON)
        packed.add(library, arcname=f"usr/local/lib/{PYTHON}", filter=_needed)
        for path in _shared_objects([program, *extensions]):
            packed.add(path.resolve(), arcname=str(path).lstrip("/"))
        package = Path(hpo_ops.__file__).parent
        for name in SDK:
            if (package / name).exists():
                target = f"usr/local/lib/{PYTHON}/site-packages/hpo_ops/{name}"
                packed.add(package / name, arcname=target, filter=_needed)


def _needed(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    entry.uid = entry.gid = 0
    inside = entry.name.partition(f"/{PYTHON}/")[2]
    is_sdk = inside.startswith("site-packages/hpo_ops/")
    return entry if is_sdk or not NOT_NEEDED & set(inside.split("/")) else None


def _add_folder(packed: tarfile.TarFile, name: str, *, mode: int = 0o755) -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode = tarfile.DIRTYPE, mode
    packed.addfile(entry)


def _add_link(packed: tarfile.TarFile, name: str, target: str) -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = tarfile.SYMTYPE, target
    packed.addfile(entry)


def _shared_objects(files: list[Path]) -> list[Path]:
    """What the dynamic linker loads for these files, by the paths at which it looks for them."""
    said = subprocess.run(["ldd", *map(str, files)], capture_output=True, text=True, check=False)
    words = [word for line in said.stdout.splitlines() for word in line.split()]
    return sorted({Path(word) for word in words if word.startswith("/") and word[-1] != ":"})
