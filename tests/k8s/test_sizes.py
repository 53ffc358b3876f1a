"""Pods of another size: a trial that gets more GPUs while it runs."""

from __future__ import annotations

from concurrent.futures import Future, wait

from tests.k8s.lab import ALL_STEPS, WHOLE, PodLab, Watch, gpus
from tests.k8s.stories import Story


def test_a_trial_that_gets_another_gpu_goes_on_in_a_larger_pod(
    lab: PodLab, told: dict[Story, Future[None]]
) -> None:
    """Two GPUs, two trials: when the short one has ended, the long one gets both."""
    wait(told.values())  # nobody else has GPUs by then
    short, long = {"x": 0.1, "pause": 0.2}, {"x": 0.2, "pause": 5.0}
    name = lab.add_pod_study(
        "k8s_sizes",
        flow="rolling",
        trials=2,
        parallelism=2,
        scheduler=WHOLE,
        allocator={"name": "even"},
        space={"x": {"float": [-1, 1]}, "pause": {"choices": [0.2, 5.0]}},
        enqueue=[short, long],
        resources={"gpu": 1, "cpu": "20m", "memory": "256Mi"},
    )
    with Watch(lab, name) as watch:
        study = lab.ended(name, lab.trigger(name))
    assert study.counts["completed"] == 2
    starts = [step for trial, step in lab.starts(study) if trial == 1]
    assert starts[0] == 0
    assert starts[-1] > 0
    lab.assert_resumed_well(study)
    assert ALL_STEPS in lab.training_log(study, 1)
    sizes = [gpus(pod) for pod in watch.seen.values()]
    assert 1 in sizes
    assert sizes[-1] == 2
    lab.assert_never_more_gpus(watch, 2)
