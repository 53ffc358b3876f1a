"""The SDK for training code; it needs the standard library only::

from hpo_ops.sdk import trial

model = build(**trial.params)
trial.checkpointed(save=model.save, load=model.load)
for step in trial.steps():              # resumes by itself
    accuracy = train_one(model)
    trial.report(step, accuracy)        # saves, and ends here if that is requested
"""

from hpo_ops.sdk.trial import Trial, TrialInterrupted

__all__ = ["Trial", "TrialInterrupted", "trial"]

trial = Trial()
"""The trial that this process runs; its assignment is read when it is first used."""
