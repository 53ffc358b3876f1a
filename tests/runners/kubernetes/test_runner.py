"""The runner `kubernetes`."""

from __future__ import annotations

import pytest

from tests.contracts.runner import RunnerContract


class TestKubernetes(RunnerContract):
    name = "kubernetes"

    def test_a_study_takes_gpus_from_the_pool_of_its_resources(self) -> None:
        study = self.study(resources={"gpu": 2})
        assert (study.pool, study.lease) == ("gpu", 2)
        assert (self.study().pool, self.study().lease) == ("cpu", 1)

    def test_a_training_is_told_what_its_pod_has(self) -> None:
        study = self.study(resources={"gpu": 1, "cpu": 4, "memory": "16Gi"})
        assert self.runner().granted(study, 2) == {"units": 2, "gpu": 2, "cpu": 8}
        assert self.runner().requested(study) == {"gpu": 1, "cpu": "4", "memory": "16Gi"}

    def test_what_a_pod_is_like_counts_for_the_score_cache(self) -> None:
        study = self.study(install=False, pod={"node_selector": {"disk": "ssd"}})
        assert self.runner().cache_parts(study) == {
            "pod": {"node_selector": {"disk": "ssd"}},
            "install": False,
        }

    @pytest.mark.parametrize(
        ("environment", "is_preferred"),
        [
            ({}, False),
            ({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, True),
            ({"AIRFLOW_CONN_KUBERNETES_DEFAULT": "{}"}, True),
        ],
    )
    def test_jobs_are_pods_where_there_is_a_cluster(
        self, environment: dict[str, str], is_preferred: bool
    ) -> None:
        assert (self.runner().job_priority(environment) > 0) is is_preferred

    def test_without_a_connection_there_are_no_pods_to_look_for(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("AIRFLOW_CONN_KUBERNETES_DEFAULT", raising=False)
        monkeypatch.setattr(
            "hpo_ops.runners.kubernetes._cluster_connection.BaseHook.get_connection", _missing
        )
        assert self.runner().resources_of_task() is None


def _missing(conn_id: str) -> None:
    from airflow.sdk.exceptions import AirflowNotFoundException

    raise AirflowNotFoundException(conn_id)
