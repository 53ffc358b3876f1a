"""A training in a pod that wants the keys of the agent beside it."""

from __future__ import annotations

from concurrent.futures import Future

import obstore

from tests.k8s.lab import PodLab
from tests.k8s.stories import Story, each

ATTACK = """
import json
import os
import time
from pathlib import Path

root = Path(os.environ["HPO_DIR"])
# The agent is to run a program of ours, and to bring home what that finds.
told = json.loads((root / "assignment.json").read_text())
order = {"every": 1, "last_step": 9, "predictor": "subprocess:Popen"}
order["options"] = {"args": ["cp", "/proc/self/environ", str(root / "stolen")]}
told.update(trial=99, forecasts=order)
(root / "assignment.json").write_text(json.dumps(told))
# What it ships by name is to be its own environment.
for name in ("log.txt", "agent.log", "restore.log"):
    (root / name).unlink(missing_ok=True)
    (root / name).symlink_to("/proc/self/environ")
(root / "agent_copy").symlink_to("/hpo-agent")


def save(step, link=None):
    folder = root / "checkpoints" / str(step)
    folder.mkdir(parents=True)
    (folder / "model").write_bytes(b"weights")
    if (root / "stolen").exists():
        (folder / "stolen").write_bytes((root / "stolen").read_bytes())
    if link:
        (folder / "link").symlink_to(link)
    (folder / "COMPLETE").touch()


with (root / "reports.jsonl").open("a") as reports:
    for step in (1, 2, 3):
        save(step, "/proc/self/environ" if step == 3 else None)
        print(json.dumps({"step": step, "metrics": {"accuracy": 0.5}}), file=reports, flush=True)
        time.sleep(3)
for _ in range(200):
    if (root / "control.json").exists():
        break
    time.sleep(0.2)
"""


def nothing_of_the_agents_environment_reaches_the_store(lab: PodLab) -> None:
    name = lab.add_pod_study(
        "k8s_attack",
        command="python attack.py",
        code=str(lab.training_with("attack.py", ATTACK)),
        trials=1,
        parallelism=1,
        scheduler={"name": "default", "max_steps": 9},
    )
    study = lab.ended(name, lab.trigger(name))  # a failed trial fails no study
    store = lab.stack.object_store.store()
    found = {
        item["path"]: bytes(obstore.get(store, item["path"]).bytes())
        for page in obstore.list(store, study.key)
        for item in page
    }
    for path, content in found.items():
        assert b"HPO_TOKEN=" not in content, path
        assert b"SECRET" not in content, path
        assert "/99/" not in path
    ((outcome, reason),) = lab.ends(study)
    assert (outcome, reason) == ("failed", "checkpoint 3: link is a link that leaves the folder")
    assert "stop requested" in "".join(
        content.decode() for path, content in found.items() if "/agent/" in path
    )


@each([nothing_of_the_agents_environment_reaches_the_store])
def test_studies(told: dict[Story, Future[None]], story: Story) -> None:
    told[story].result()
