"""Studies whose trials are pods of a real cluster."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.cluster import Cluster
from tests.k8s.lab import PodLab, pod_lab


@pytest.fixture(scope="module")
def lab(cluster: Cluster, namespace: str) -> Iterator[PodLab]:
    with pod_lab(cluster, namespace) as made:
        yield made


def test_a_study_of_pods_ends_with_its_best(lab: PodLab) -> None:
    name = lab.add_pod_study("k8s_first", trials=4, parallelism=2)
    run_id = lab.trigger(name)
    assert lab.wait(name, run_id) == "success"
    study = lab.study(name, run_id)
    assert study.counts["failed"] == 0
    assert study.best is not None
    assert lab.pods(name) == []
