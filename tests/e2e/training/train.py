"""A training that needs no framework: its score follows from its parameters, step by step."""

import json
import time

from hpo_ops.sdk import trial

state = {"steps": []}
trial.checkpointed(
    save=lambda folder: (folder / "state.json").write_text(json.dumps(state)),
    load=lambda folder: state.update(json.loads((folder / "state.json").read_text())),
)
print("begins after", state["steps"], flush=True)
for step in trial.steps(9):
    time.sleep(trial.params.get("pause", 0.02))
    state["steps"].append(step)
    score = 1 - abs(trial.params["x"]) / (1 + step)
    trial.report(step, accuracy=score, size=1 - abs(trial.params["x"]))
print("trained", state["steps"])
