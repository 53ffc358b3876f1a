"""Files of the protocol as a hostile training or store writes them."""

from __future__ import annotations

import json
import shutil
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from hpo_ops.agent import Agent
from hpo_ops.checkpoints.folder import BadCheckpointError
from hpo_ops.checkpoints.manifest import Manifest, ManifestFile
from hpo_ops.protocol import (
    MARKER,
    Assignment,
    Checkpoint,
    Control,
    CurveForecast,
    ForecastOrder,
    Message,
    Outcome,
    ProtocolError,
    Provenance,
    Report,
    Result,
    Workspace,
)
from tests.fuzz.conftest import Fuzz
from tests.fuzz.mutations import damaged, near
from tests.fuzz.outcomes import outcome
from tests.gateways import FakeGateway

ASSIGNMENT = Assignment(
    study="small", trial=3, segment="s1", params={"lr": 0.1}, metrics=["loss"], until_step=9
)
MESSAGES: tuple[Message, ...] = (
    ASSIGNMENT,
    Report(step=1, metrics={"loss": 0.5}, seconds=1.0),
    Control(),
    Result(outcome=Outcome.COMPLETED, step=3, reason="done", exit_code=0),
    Checkpoint(step=1, uri="s3://hpo/small/r/1", files=1, bytes=10),
    CurveForecast(step=1, steps=[2, 3], quantiles=[[0.1], [0.2]]),
    ForecastOrder(every=1, last_step=9),
    Provenance(packages={"torch": "2.0"}, devices=["gpu"], python="3.11"),
)
KINDS = tuple(type(message) for message in MESSAGES)
FIELDS = sorted({key for message in MESSAGES for key in message.to_dict()})
LINES = [message.to_json().encode() + b"\n" for message in MESSAGES[1:4]]
TOKENS = (
    b"\n", b"{}", b"[]", b"null\n", b'{"step":', b"NaN", b"Infinity", b"-1", b"1e400", b"\x00",
    b"\xff", b'"\\ud800"', b"9" * 5000, b"[" * 3000, b"{" * 3000, b"x" * 3000,
    b'{"step":2147483648}\n',
)  # fmt: skip


@pytest.mark.fuzz(150)
def test_a_message_is_read_or_refused_by_a_sentence(fuzz: Fuzz[Any]) -> None:
    def check(item: tuple[type[Message], Any]) -> Counter[str]:
        kind, data = item
        text = data if isinstance(data, bytes) else json.dumps(data)
        return outcome(lambda: kind.from_json(text).to_json(), ProtocolError)

    dictionaries = [json.loads(message.to_json()) for message in MESSAGES]
    data = st.one_of(near(dictionaries, names=FIELDS), damaged(LINES, tokens=TOKENS))
    fuzz(st.tuples(st.sampled_from(KINDS), data), check)


@pytest.mark.fuzz(60)
def test_a_manifest_is_read_or_refused_by_a_sentence(fuzz: Fuzz[Any]) -> None:
    def check(data: Any) -> Counter[str]:
        text = data if isinstance(data, bytes) else json.dumps(data).encode()
        made: list[Manifest] = []
        seen = outcome(lambda: made.append(Manifest.from_json(text)), ValueError)
        for file in (file for manifest in made for file in manifest.files):
            assert not file.path.startswith("/")
            assert ".." not in file.path.split("/")
            assert file.bytes >= 0
        return seen

    good = Manifest(3, (ManifestFile("a/b.pt", 10, "0" * 64),)).to_json()
    names = ("version", "step", "files", "path", "bytes", "sha256", "../x", "/x")
    fuzz(st.one_of(near([json.loads(good)], names=names), damaged([good], tokens=TOKENS)), check)


NAMES = ("assignment.json", "reports.jsonl", "control.json", "software.json", "result.json",
         "log.txt", "checkpoints", "checkpoints/1", "checkpoints/7", "checkpoints/007",
         "checkpoints/²", "checkpoints/" + "9" * 30, "checkpoints/4/manifest.json")  # fmt: skip
Step = Callable[[Path], None]


def _write(name: str, text: bytes) -> Step:
    def do(root: Path) -> None:
        _clear(root / name)
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(text)

    return do


def _folder(name: str) -> Step:
    def do(root: Path) -> None:
        _clear(root / name)
        (root / name).mkdir(parents=True)
        (root / name / MARKER).touch()
        (root / name / "model.pt").write_bytes(b"x")

    return do


def _link(name: str, to: str) -> Step:
    def do(root: Path) -> None:
        _clear(root / name)
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).symlink_to(to)

    return do


def _remove(name: str) -> Step:
    return lambda root: _clear(root / name)


def _clear(path: Path) -> None:
    parents = [parent for parent in path.parents if parent.is_symlink() or parent.is_file()]
    for parent in parents:
        parent.unlink()
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


texts = st.one_of(
    damaged([b"".join(LINES[:1] * 3), *LINES], tokens=TOKENS),
    st.sampled_from([*LINES, b"", b"{", b'{"step":1,"metrics":{"loss":1}}\n']),
)
steps = st.one_of(
    st.builds(_write, st.sampled_from(NAMES), texts),
    st.builds(_folder, st.sampled_from(NAMES)),
    st.builds(
        _link, st.sampled_from(NAMES), st.sampled_from(["/proc/self/environ", "/", "nowhere", "."])
    ),
    st.builds(_remove, st.sampled_from(NAMES)),
)


@pytest.mark.fuzz(60)
def test_an_agent_ends_its_segment_whatever_the_training_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fuzz: Fuzz[Any]
) -> None:
    """Also where the training replaces its files by folders and links."""
    broken: list[object] = []
    monkeypatch.setattr(threading, "excepthook", lambda args: broken.append(args.exc_value))

    def check(item: tuple[list[Step], int | None]) -> Counter[str]:
        done, exit_code = item
        root = tmp_path / "hpo"
        shutil.rmtree(root, ignore_errors=True)
        workspace, gateway = Workspace(root), FakeGateway()
        workspace.prepare(ASSIGNMENT)
        broken.clear()

        def upload(step: int, folder: Path) -> Checkpoint:
            if not folder.is_dir() or folder.is_symlink():
                raise BadCheckpointError("no folder")
            return Checkpoint(step=step, uri=f"s3://hpo/{step}", files=1, bytes=1)

        agent = Agent(workspace, ASSIGNMENT, gateway, upload=upload, finish_seconds=1.0)
        for step in done:
            step(root)
            agent.pump()
        result = agent.finish(exit_code)
        assert not broken, f"a thread of the agent ended: {broken[0]!r}"
        assert gateway.results == [result]
        return Counter({result.outcome.value: 1})

    codes = st.sampled_from([0, 1, -9, None])
    fuzz(st.tuples(st.lists(steps, min_size=1, max_size=6), codes), check)
