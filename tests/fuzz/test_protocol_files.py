"""Files of the protocol as a hostile training or store writes them."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections import Counter
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from obstore.store import MemoryStore

from hpo_ops.agent import Agent
from hpo_ops.checkpoints import Checkpoints
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
    SegmentResult,
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
    SegmentResult(outcome=Outcome.COMPLETED, step=3, reason="done", exit_code=0),
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
FILES = ("model.pt", MARKER, "manifest.json", "deep/er/x")
SECRET = "what only the agent may read"  # noqa: S105  not one


@dataclass(frozen=True)
class Deed:
    """Something that a training does to a path of its directory.

    Attributes:
        kind: Writes a file, makes a checkpoint folder, a link or a pipe, or removes it.
        name: The path.
        text: Content of a file, or the target of a link; SECRET stands for the agent's file.
    """

    kind: str
    name: str
    text: bytes = b""

    def do(self, root: Path, secret: Path) -> None:
        path = root / self.name
        self._make_room(path, root)
        if self.kind == "write":
            path.write_bytes(self.text)
        elif self.kind == "folder":
            path.mkdir()
            for name in ("model.pt", MARKER):
                (path / name).write_bytes(b"x")
        elif self.kind == "link":
            path.symlink_to(str(secret) if self.text == b"SECRET" else self.text.decode())
        elif self.kind == "pipe":
            os.mkfifo(path)

    @staticmethod
    def _make_room(path: Path, root: Path) -> None:
        for parent in path.parents:
            is_other = parent.is_symlink() or (parent.exists() and not parent.is_dir())
            if parent.is_relative_to(root) and is_other:
                parent.unlink()
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


paths = st.one_of(
    st.sampled_from(NAMES),
    st.builds(lambda step, file: f"checkpoints/{step}/{file}", st.just(7), st.sampled_from(FILES)),
)
texts = st.one_of(
    damaged([b"".join(LINES[:1] * 3), *LINES], tokens=TOKENS),
    st.sampled_from([*LINES, b"", b"{", b'{"step":1,"metrics":{"loss":1}}\n']),
)
targets = st.sampled_from([b"SECRET", b"/proc/self/environ", b"/", b"nowhere", b".", b"model.pt"])
deeds = st.one_of(
    st.builds(Deed, st.just("write"), paths, texts),
    st.builds(Deed, st.just("folder"), st.sampled_from(NAMES[6:])),
    st.builds(Deed, st.just("link"), paths, targets),
    st.builds(Deed, st.sampled_from(["folder", "pipe", "remove"]), paths),
)


@pytest.mark.fuzz(60)
def test_an_agent_ends_its_segment_whatever_the_training_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fuzz: Fuzz[Any]
) -> None:
    """Also where the training replaces its files by folders, links and pipes."""
    broken: list[object] = []
    monkeypatch.setattr(threading, "excepthook", lambda args: broken.append(args.exc_value))
    monkeypatch.setenv("HPO_TOKEN", SECRET)
    (tmp_path / "secret").write_text(SECRET)

    def check(item: tuple[list[Deed], int | None]) -> Counter[str]:
        done, exit_code = item
        root = tmp_path / "hpo"
        shutil.rmtree(root, ignore_errors=True)
        workspace, gateway, store = Workspace(root), FakeGateway(), MemoryStore()
        workspace.prepare(ASSIGNMENT)
        broken.clear()
        upload = partial(Checkpoints(store, "small/r", uri="s3://hpo").upload, ASSIGNMENT.trial)
        agent = Agent(workspace, ASSIGNMENT, gateway, upload=upload, finish_seconds=1.0)
        for deed in done:
            deed.do(root, tmp_path / "secret")
            agent.pump()
        result = agent.finish(exit_code)
        assert not broken, f"a thread of the agent ended: {broken[0]!r}"
        assert gateway.results == [result]
        assert SECRET not in f"{result} {gateway.reports} {gateway.provenance}"
        for found in (item for page in store.list() for item in page):
            assert SECRET.encode() not in bytes(store.get(found["path"]).bytes())
        return Counter({result.outcome.value: 1})

    codes = st.sampled_from([0, 1, -9, None])
    fuzz(st.tuples(st.lists(deeds, min_size=1, max_size=6), codes), check)
