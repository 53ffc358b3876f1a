"""The client of the Docker Engine API, by the words of a fake and of a real engine."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from hpo_ops.runners.docker._engine_api import (
    ContainerExit,
    DockerEngine,
    DockerError,
    DockerUnreachableError,
    NoSuchContainerError,
    NoSuchImageError,
    _is_exact,
    _payloads,
)
from tests.docker_engine import IMAGE
from tests.runners.docker.image_registry import registry

real = pytest.mark.e2e


def run(
    engine: DockerEngine, script: str, *, name: str = "a-test", memory: int = 0, label: str = "1"
) -> str:
    """Starts a Python script in a container."""
    container = engine.create(
        {
            "Image": IMAGE,
            "Cmd": ["python", "-c", script],
            "Labels": {"hpo-test/label": label},
            "HostConfig": {
                "NetworkMode": "none",
                "Init": True,
                "Memory": memory,
                "MemorySwap": memory,
            },
        },
        name=name,
    )
    engine.start(container)
    return container


@pytest.mark.parametrize("host", ["ssh://machine", "docker.sock", "unix://", "tcp://"])
def test_an_address_of_another_kind_is_refused(host: str) -> None:
    with pytest.raises(ValueError, match=r"DOCKER_HOST is .* but must be unix:///path or tcp://"):
        DockerEngine(host)


def test_tls_is_refused_rather_than_ignored() -> None:
    with pytest.raises(ValueError, match="DOCKER_TLS_VERIFY is set"):
        DockerEngine.from_environment({"DOCKER_TLS_VERIFY": "1"})


def test_an_engine_that_does_not_answer_is_named(tmp_path: Path) -> None:
    engine = DockerEngine.from_environment({"DOCKER_HOST": f"unix://{tmp_path}/nothing"})
    with pytest.raises(
        DockerUnreachableError, match=r"no Docker Engine answers at unix://.*/noth"
    ):
        engine.list_containers({})


@pytest.mark.parametrize("size", [1, 3, 8, 100])
def test_frames_are_put_together_however_they_are_cut(size: int) -> None:
    def frame(stream: int, content: bytes) -> bytes:
        return bytes([stream, 0, 0, 0]) + len(content).to_bytes(4, "big") + content

    data = frame(1, b"one\n") + frame(2, b"") + frame(2, b"a longer line\n") + frame(1, b"end")
    chunks = (data[start : start + size] for start in range(0, len(data), size))
    assert b"".join(_payloads(chunks)) == b"one\na longer line\nend"


@pytest.mark.parametrize(
    ("image", "is_exact"),
    [("a", False), ("host:5000/a", False), ("a:1", True), ("host:5000/a@sha256:00", True)],
)
def test_a_registrys_port_is_no_tag(image: str, is_exact: bool) -> None:
    assert _is_exact(image) is is_exact


@real
def test_a_container_runs_to_its_end_and_is_removed(engine: DockerEngine) -> None:
    script = "import sys; print('out', flush=True); print('err', file=sys.stderr); sys.exit(3)"
    container = run(engine, script)
    # Docker reads the two streams separately, so either may come first.
    assert sorted(b"".join(engine.follow_output(container)).split()) == [b"err", b"out"]
    assert engine.wait(container) == ContainerExit(code=3, is_out_of_memory=False)
    engine.remove(container)
    engine.remove(container)
    with pytest.raises(NoSuchContainerError, match=f"the container {container[:12]}"):
        engine.wait(container)


@real
def test_a_container_that_uses_up_its_memory_says_so(engine: DockerEngine) -> None:
    container = run(engine, "bytearray(200_000_000)", memory=60_000_000)
    assert engine.wait(container) == ContainerExit(code=137, is_out_of_memory=True)


@real
def test_a_signal_reaches_the_process_and_none_that_has_ended(engine: DockerEngine) -> None:
    script = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))\n"
        "print('ready', flush=True)\n"
        "time.sleep(60)"
    )
    container = run(engine, script)
    assert next(engine.follow_output(container)) == b"ready\n"
    engine.send_signal(container, "SIGTERM")
    assert engine.wait(container).code == 5
    engine.send_signal(container, "SIGTERM")
    engine.remove(container)
    engine.send_signal(container, "SIGTERM")


@real
def test_containers_are_found_by_label_running_or_not(engine: DockerEngine) -> None:
    started = time.time()
    ended = run(engine, "pass", name="ended", label="a")
    engine.wait(ended)
    running = run(engine, "import time; time.sleep(60)", name="running", label="b")
    found = {item.id: item for item in engine.list_containers({"hpo-test/label": None})}
    assert set(found) == {ended, running}
    assert (found[ended].is_running, found[running].is_running) == (False, True)
    assert found[running].name == "running"
    assert abs(found[running].created_at - started) < 30
    (only,) = engine.list_containers({"hpo-test/label": "a"})
    assert only.id == ended
    assert only.labels["hpo-test/label"] == "a"


@real
def test_a_removed_container_ends_like_one_that_was_killed(engine: DockerEngine) -> None:
    container = run(engine, "import time; time.sleep(60)")
    ends: list[ContainerExit] = []
    waiter = threading.Thread(target=lambda: ends.append(engine.wait(container)))
    waiter.start()
    time.sleep(0.3)
    engine.remove(container)
    waiter.join(20)
    assert ends == [ContainerExit(code=137, is_out_of_memory=False)]


@real
def test_an_image_that_nobody_has_is_told_apart(engine: DockerEngine) -> None:
    with pytest.raises(NoSuchImageError, match="localhost:1/none"):
        engine.create({"Image": "localhost:1/none:1", "Cmd": ["x"]}, name="none")
    with pytest.raises(DockerError, match=r"image localhost:1/none.* connection refused"):
        engine.pull("localhost:1/none:1")


@real
def test_an_image_is_pulled_from_its_registry(engine: DockerEngine) -> None:
    with registry() as (image, digest):
        with pytest.raises(NoSuchImageError):
            engine.image_digest(image)
        engine.pull(image)
        assert engine.image_digest(image) == digest
        with pytest.raises(DockerError, match=r"the image .*/other:2.*404"):
            engine.pull(image.replace("tiny:1", "other:2"))
