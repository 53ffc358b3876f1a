"""A training whose curve levels off at a height, faster on more units."""

import json
import math
import time

from hpo_ops.sdk import trial

state = {"step": 0}
trial.checkpointed(
    save=lambda folder: (folder / "state.json").write_text(json.dumps(state)),
    load=lambda folder: state.update(json.loads((folder / "state.json").read_text())),
)
print(f"goes on from step {state['step']} on {trial.units:g} units", flush=True)
for step in trial.steps():
    time.sleep(trial.params["pause"] / trial.units)
    state["step"] = step
    trial.report(step, accuracy=trial.params["top"] * (1 - math.exp(-step / 4)))
