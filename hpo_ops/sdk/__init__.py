"""The SDK for training code, which depends on the standard library only::

from hpo_ops.sdk import trial

model = build(**trial.params)
trial.checkpointed(save=model.save, load=model.load)
for step in trial.steps():              # after a pause: only the remaining steps
    accuracy = train_one(model)
    trial.report(step, accuracy)        # saves, and exits if a pause or stop is requested
"""

from hpo_ops.sdk.trial import Trial, TrialInterrupted

__all__ = ["Trial", "TrialInterrupted", "trial"]

trial = Trial()
"""The trial that this process runs; the assignment is read when the object is first used."""
