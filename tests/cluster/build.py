"""Builds, once, what a cluster is started from: programs and images, in the user's cache.

Each part is built aside and renamed when whole, so that an interrupted build leaves nothing that
looks finished.
"""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cluster.availability import ClusterUnavailableError
from tests.cluster.layout import (
    BASE_IMAGE,
    HERE,
    PAUSE_IMAGE,
    PROJECT,
    REQUIREMENTS,
    SHELL_IMAGE,
    Cache,
    extra_requirements,
)
from tests.cluster.machine import Program, Specification
from tests.cluster.machines import end_machines, start_machine
from tests.cluster.node import containerd_settings, import_image
from tests.cluster.oci import Layer, pack, write_image

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
BASE_CONFIG = {"Cmd": ["python3"], "Env": [f"PATH={PATH}", "PYTHONUNBUFFERED=1", "HOME=/home/hpo"]}
_CONTAINERD_SECONDS = 60.0

Say = Callable[[str], None]


def build(cache: Cache, say: Say) -> None:
    """Builds what is missing and says how far it is.

    Raises:
        ClusterUnavailableError: What it is built from could not be fetched or compiled.
    """
    if cache.is_built:
        return
    with locked(cache.root / "build.lock", say, "another build is going on: waiting for it"):
        if cache.is_built:
            return
        if cache.kubernetes.is_dir():
            say("building images for the tests on Kubernetes, once: 1 to 3 minutes")
        else:
            say("building a Kubernetes for the tests, once: 5 to 15 minutes on two cores")
        say(f"into {cache.root}")
        began = time.monotonic()
        # The file system mostly waits for downloads: it is made while Kubernetes is compiled.
        errors: list[Exception] = []
        rootfs = threading.Thread(target=_collect, args=(errors, _build_rootfs, cache, say))
        if not cache.images.is_dir():
            rootfs.start()
        if not cache.kubernetes.is_dir():
            _collect(errors, _build_kubernetes, cache, say)
        if rootfs.ident is not None:
            rootfs.join()
        if errors:
            raise errors[0]
        if not cache.images.is_dir():
            _build_images(cache)
        say(f"built in {time.monotonic() - began:.0f} s")


@contextmanager
def locked(path: Path, say: Say, message: str) -> Iterator[None]:
    """Holds a lock that is released also when this process is killed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(message)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _collect(
    errors: list[Exception], function: Callable[[Cache, Say], None], *args: object
) -> None:
    try:
        function(*args)  # type: ignore[arg-type]
    except Exception as error:  # noqa: BLE001 - raised by the caller, from its own thread
        errors.append(error)


def _build_kubernetes(cache: Cache, say: Say) -> None:
    aside = _aside(cache.kubernetes)
    _run([HERE / "kubernetes.sh", aside], log=aside / "build.log", say=say)
    aside.rename(cache.kubernetes)


def _build_rootfs(cache: Cache, say: Say) -> None:
    aside = _aside(cache.images)
    uv = Path(sys.executable).with_name("uv")
    requirements = [*REQUIREMENTS, *extra_requirements()]
    constraints = PROJECT / "constraints.txt"
    command: list[Path | str] = [HERE / "rootfs.sh", aside, uv, constraints, *requirements]
    _run(command, log=aside / "build.log", say=say)


def _build_images(cache: Cache) -> None:
    """Makes images of the file systems, and a store of containerd's that has them unpacked."""
    aside = cache.images.with_suffix(".part")
    programs = cache.kubernetes / "bin"
    shell = pack(_make_shell(programs / "busybox", aside / "shell"), aside / "shell.tar")
    base = pack(aside / "root", aside / "base.tar")
    images = (
        # It only has to be there until it is killed.
        (PAUSE_IMAGE, shell, {"Entrypoint": ["/bin/sleep", "2147483647"]}),
        (SHELL_IMAGE, shell, {"Cmd": ["sh"], "Env": ["PATH=/bin"]}),
        (BASE_IMAGE, base, BASE_CONFIG),
    )
    with _containerd(aside, programs) as socket:
        for name, layer, config in images:
            archive = aside / "image.tar"
            write_image(archive, name=name, layers=[layer], config=config)
            import_image(archive, programs=programs, socket=socket)
            archive.unlink()
    base.write(aside / "base.json")
    for name in ("root", "shell", "work", "state"):
        shutil.rmtree(aside / name, ignore_errors=True)
    for name in ("shell.tar", "base.tar"):
        (aside / name).unlink()
    aside.rename(cache.images)


def read_base(cache: Cache) -> Layer:
    """Returns the layer that the store has, and on top of which an image can be made."""
    return Layer.read(cache.images / "base.json")


def _make_shell(busybox: Path, root: Path) -> Path:
    for name in ("bin", "etc", "tmp"):
        (root / name).mkdir(parents=True)
    (root / "tmp").chmod(0o1777)
    (root / "etc" / "passwd").write_text("root:x:0:0:root:/:/bin/sh\n", encoding="utf-8")
    shutil.copy2(busybox, root / "bin" / "busybox")
    applets = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True)
    for applet in applets.stdout.split():
        if applet != "busybox":
            (root / "bin" / applet).symlink_to("busybox")
    return root


@contextmanager
def _containerd(folder: Path, programs: Path) -> Iterator[Path]:
    socket = folder / "containerd.sock"
    settings = folder / "containerd.toml"
    text = containerd_settings(
        root=folder / "containerd", state=folder / "state", socket=socket, cri=""
    )
    settings.write_text(
        text.replace("disabled_plugins = [", 'disabled_plugins = ["io.containerd.grpc.v1.cri", '),
        encoding="utf-8",
    )
    command = (str(programs / "containerd"), "--config", str(settings))
    machine = Specification(folder=str(folder), programs=(Program("containerd", command),))
    start_machine("build", machine, run=folder, path=PATH, libraries=programs.parent / "lib")
    try:
        wait_for_containerd(socket, programs)
        yield socket
    finally:
        end_machines(folder)


def wait_for_containerd(socket: Path, programs: Path) -> None:
    """Waits until a containerd answers."""
    deadline = time.monotonic() + _CONTAINERD_SECONDS
    command = [str(programs / "ctr"), "--address", str(socket), "--timeout", "5s", "version"]
    while subprocess.run(command, capture_output=True, check=False).returncode != 0:
        if time.monotonic() > deadline:
            raise RuntimeError(f"containerd does not answer: {socket.parent / 'containerd.log'}")
        time.sleep(0.1)


def _aside(folder: Path) -> Path:
    aside = folder.with_suffix(".part")
    end_machines(aside)  # of a build that was killed
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    return aside


def _run(command: list[Path | str], *, log: Path, say: Say) -> None:
    """Runs a script and passes on what it says."""
    with subprocess.Popen(
        [str(part) for part in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
    ) as process:
        for line in process.stdout or ():
            say(line.rstrip())
    if process.returncode != 0:
        tail = log.read_text(encoding="utf-8", errors="replace").splitlines()[-15:]
        end = "\n".join(tail)
        raise ClusterUnavailableError(f"the build failed ({log}):\n{end}")
