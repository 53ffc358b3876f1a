"""Tasks that are cleared, killed or gone while their pods run: one pod a segment, one result."""

from __future__ import annotations

import json
import time
from concurrent.futures import Future
from typing import Any

import psutil
from kubernetes.client import V1Pod
from sqlalchemy import create_engine, func, insert, select

from hpo_ops.client import Progress
from hpo_ops.core.leftovers import YOUNG_SECONDS
from hpo_ops.ledger._schema import leases, segments
from hpo_ops.runners.kubernetes._pod_names import AGENT, MANAGED_BY, SEGMENT_LABEL, TRAINING
from tests.cluster.forward import Valve
from tests.e2e.airflow import wait_for
from tests.k8s.lab import ALL_STEPS, WHOLE, PodLab, Watch, pace
from tests.k8s.packages import NEEDS, write_wheel
from tests.k8s.stories import Story, each

ONE = {"flow": "rolling", "trials": 1, "parallelism": 1, "scheduler": WHOLE}


def a_task_that_is_cleared_finds_its_pod(lab: PodLab) -> None:
    name = lab.add_pod_study("k8s_cleared", **ONE, space=pace(2.0))
    with Watch(lab, name) as watch:
        run_id = lab.trigger(name)
        lab.wait_for_step(name, run_id, 1)
        order = {
            "dry_run": False,
            "dag_run_id": run_id,
            "task_ids": [["trial", 0]],
            "only_failed": False,
        }
        lab.airflow.request("POST", f"/dags/{name}/clearTaskInstances", json=order)
        study = lab.ended(name, run_id)
    assert trial_task(lab, name, run_id)["try_number"] == 2
    assert len(watch.seen) == 1
    assert_one_result(lab, name, run_id)
    assert lab.starts(study) == [(0, 0)]


def a_worker_that_is_killed_when_the_training_is_over_starts_no_second_pod(lab: PodLab) -> None:
    name = lab.add_pod_study("k8s_worker", **ONE, space=pace(0.3))
    with Watch(lab, name) as watch:
        run_id = lab.trigger(name)
        wait_for(lambda: lab.pods(name), what="the pod")
        wait_for(lambda: has_ended(lab.pods(name)[0], TRAINING), what="the training's end")
        kill_task(lab, trial_task(lab, name, run_id)["id"])
        study = lab.ended(name, run_id)
    # One that was killed before its task began has not tried yet: it is queued again.
    assert trial_task(lab, name, run_id)["try_number"] in (1, 2)
    assert len(watch.seen) == 1
    assert_one_result(lab, name, run_id)
    assert lab.starts(study) == [(0, 0)]


def kill_task(lab: PodLab, instance: str) -> None:
    """Kills the process of a task's instance as soon as there is one."""

    def kill() -> bool:
        for process in psutil.process_iter(["cmdline"]):
            if any(instance in word for word in process.info["cmdline"] or ()):
                process.kill()
                return True
        return False

    wait_for(kill, what="the task's process", every=0.02)


def a_trial_resumes_while_its_old_pod_is_still_leaving(lab: PodLab) -> None:
    """A container of the study's own takes its time."""
    deaf = {
        "name": "deaf",
        "image": lab.cluster.images.shell,
        "command": ["sh", "-c", "trap '' TERM; while :; do sleep 1; done"],
    }
    name = lab.add_pod_study(
        "k8s_leaving",
        **ONE,
        space=pace(2.0),
        pod={"spec": {"terminationGracePeriodSeconds": 25, "containers": [deaf]}},
    )
    with Watch(lab, name) as watch:
        run_id = lab.trigger(name)
        study = lab.wait_for_step(name, run_id, 1)
        lab.session.gateway.pause(study.id, "lunch")
        wait_for(lambda: lab.ends(study), what="the pause")
        lab.session.gateway.resume(study.id)

        def are_both_there() -> bool:
            pods = lab.pods(name)
            return len(pods) == 2 and any(pod.metadata.deletion_timestamp for pod in pods)

        wait_for(are_both_there, what="a new pod beside the old one")
        study = lab.ended(name, run_id)
    assert len(watch.seen) == 2
    assert len(lab.starts(study)) == 2
    lab.assert_resumed_well(study)
    assert_one_result(lab, name, run_id)


def a_store_that_hangs_holds_up_neither_the_training_nor_its_reports(lab: PodLab) -> None:
    """It hangs from the second step until after the end: the last upload is waited for."""
    name, valve = "k8s_store", Valve()
    with lab.store_behind(valve) as pod, Watch(lab, name) as watch:
        lab.add_pod_study(name, **ONE, space=pace(2.0), pod=pod)
        run_id = lab.trigger(name)
        study = lab.wait_for_step(name, run_id, 1)
        valve.close()
        wait_for(lambda: has_said_all(lab, name, run_id), what="the training's end")
        wait_for(lambda: lab.trials(study)[0].step == 9, what="the last report", seconds=10)
        # The training is over; the trial is not, since its checkpoint is not in the store.
        assert not has_ended(lab.pods(name)[0], AGENT)
        assert lab.trials(study)[0].state == "running"
        valve.open()
        study = lab.ended(name, run_id)
    assert len(watch.seen) == 1
    assert lab.starts(study) == [(0, 0)]
    # Each step took as long as it takes, but for what a busy machine adds.
    assert max(lab.session.gateway.reports(study.id).seconds) < 10
    assert_one_result(lab, name, run_id)
    best = lab.checkpoints(study.key).best()
    assert best is not None
    assert best.step == 9


def what_a_deleted_dag_leaves_behind_is_found_and_repaired(lab: PodLab) -> None:
    """By `hpo doctor`, which says it, and by the DAG `hpo_reconcile`, which repairs it."""
    deleted, marked = start_two_that_go_on(lab, "k8s_deleted_dag", "k8s_marked_run")
    (orphan,) = lab.pods("k8s_deleted_dag")
    lab.airflow.request("DELETE", "/dags/k8s_deleted_dag")
    # Marked as failed, a run still closes its study: the pod ends, but nobody deletes it.
    path = f"/dags/k8s_marked_run/dagRuns/{marked.run_id}"
    lab.airflow.request("PATCH", path, json={"state": "failed"})
    lab.wait("k8s_marked_run", marked.run_id)
    assert lab.session.gateway.progress(marked.id).state == "ended"
    stray = make_leftovers(lab, deleted.id)
    time.sleep(YOUNG_SECONDS)  # What is younger may still be being made.

    findings = doctor(lab)
    # What the other stories have at work is none of its business.
    assert all(is_of(item, {deleted.id, marked.id}, stray) for item in findings)
    assert {(item["repair"], item["study_id"]) for item in findings} == {
        ("end study", deleted.id),
        ("free lease", deleted.id),
        ("delete pod", deleted.id),
        ("delete pod", marked.id),
        ("delete pod", None),
    }
    texts = " ".join(item["text"] for item in findings)
    assert "its DAG run does not exist any more" in texts
    assert orphan.metadata.name in texts

    reconcile(lab)
    assert lab.session.gateway.progress(deleted.id).state == "ended"
    wait_for(
        lambda: not lab.pods("k8s_deleted_dag") and not lab.pods("k8s_marked_run"),
        what="the pods to go",
    )
    with create_engine(lab.stack.ledger_url).connect() as ledger:
        held = select(func.count()).where(leases.c.study_id == deleted.id)
        assert ledger.execute(held).scalar() == 0
    # What the ledger has never heard of may be someone else's: only told.
    (left,) = doctor(lab)
    assert (left["segment"], left["is_unknown"]) == (stray, True)
    (left,) = doctor(lab, "--fix", "--unknown")
    assert left["is_repaired"]
    assert doctor(lab) == []


def start_two_that_go_on(lab: PodLab, *names: str) -> list[Progress]:
    """Studies whose trials train and do not end by themselves."""
    runs = []
    for name in names:
        lab.add_pod_study(name, **ONE, space=pace(600.0), grace=2)
        runs.append((name, lab.trigger(name)))

    def are_deferred() -> bool:
        return all(
            any(item["state"] == "deferred" for item in find_trial_tasks(lab, name, run_id))
            and any(pod.status.phase == "Running" for pod in lab.pods(name))
            for name, run_id in runs
        )

    wait_for(are_deferred, what="the pods")
    return [lab.study(name, run_id) for name, run_id in runs]


def make_leftovers(lab: PodLab, study_id: int) -> str:
    """A lease of a segment that is over, and a pod of one that never was; returns the latter."""
    with create_engine(lab.stack.ledger_url).begin() as ledger:
        (lease,) = ledger.execute(select(leases).where(leases.c.study_id == study_id)).all()
        over = {"outcome": "preempted", "ended_at": func.now(), "key": "", "from_step": 0}
        ledger.execute(
            insert(segments).values(
                id="over", study_id=study_id, trial=0, runner="kubernetes", **over
            )
        )
        ledger.execute(insert(leases).values(**{**lease._mapping, "segment_id": "over"}))
    stray = "never-heard-of"
    container = {"name": TRAINING, "image": lab.cluster.images.shell, "command": ["sleep", "999"]}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 1}
    labels = {**MANAGED_BY, SEGMENT_LABEL: stray}
    pod = {"metadata": {"name": stray, "labels": labels}, "spec": spec}
    lab.api.create_namespaced_pod(lab.namespace, pod)
    return stray


def is_of(finding: dict[str, Any], study_ids: set[int], stray: str) -> bool:
    return finding["study_id"] in study_ids or finding["segment"] == stray


def doctor(lab: PodLab, *options: str) -> list[dict[str, Any]]:
    config = {"KUBECONFIG": str(lab.cluster.kubeconfig)}
    done = lab.hpo("doctor", "--json", "--namespace", lab.namespace, *options, **config)
    findings: list[dict[str, Any]] = json.loads(done.stdout)["findings"]
    is_well = all(item["is_repaired"] for item in findings)
    assert done.returncode == (0 if is_well else 1), done.stderr
    return findings


def reconcile(lab: PodLab) -> None:
    """Lets the DAG `hpo_reconcile` run once."""
    lab.pause_dag("hpo_reconcile", is_paused=False)
    assert lab.wait("hpo_reconcile", lab.trigger("hpo_reconcile")) == "success"
    lab.pause_dag("hpo_reconcile")


def the_packages_that_code_asks_for_are_installed_in_its_pods(lab: PodLab) -> None:
    """From a wheel beside the code: pods of this cluster reach no index."""
    folder = lab.training_with("needs.py", NEEDS)
    write_wheel(folder, "tiny_need", "1.5")
    (folder / "requirements.txt").write_text("./tiny_need-1.5-py3-none-any.whl\n")
    name = lab.add_pod_study("k8s_packages", **ONE, command="python needs.py", code=str(folder))
    study = lab.ended(name, lab.trigger(name))
    assert study.counts["completed"] == 1
    assert "tiny_need 1.5 and numpy of the image" in lab.training_log(study)


def trial_task(lab: PodLab, name: str, run_id: str) -> dict[str, Any]:
    (found,) = find_trial_tasks(lab, name, run_id)
    return found


def find_trial_tasks(lab: PodLab, name: str, run_id: str) -> list[dict[str, Any]]:
    return [item for item in lab.instances(name, run_id) if item["task_id"] == "trial"]


def has_said_all(lab: PodLab, name: str, run_id: str) -> bool:
    return ALL_STEPS in lab.task_log(name, run_id, "trial", map_index=0)


def has_ended(pod: V1Pod, container: str) -> bool:
    # A native sidecar is among the init containers.
    statuses = (
        *(pod.status.container_statuses or ()),
        *(pod.status.init_container_statuses or ()),
    )
    return any(item.name == container and item.state.terminated for item in statuses)


def assert_one_result(lab: PodLab, name: str, run_id: str) -> None:
    """The trial took each step once, was reported once, and its score is in XCom."""
    study = lab.study(name, run_id)
    assert study.counts["completed"] == 1
    assert ALL_STEPS in lab.training_log(study)
    assert lab.session.gateway.reports(study.id).steps == list(range(1, 10))
    (trial,) = lab.trials(study)
    assert lab.xcom(trial_task(lab, name, run_id))["value"] == trial.value


@each(
    [
        what_a_deleted_dag_leaves_behind_is_found_and_repaired,
        a_task_that_is_cleared_finds_its_pod,
        a_worker_that_is_killed_when_the_training_is_over_starts_no_second_pod,
        a_trial_resumes_while_its_old_pod_is_still_leaving,
        a_store_that_hangs_holds_up_neither_the_training_nor_its_reports,
        the_packages_that_code_asks_for_are_installed_in_its_pods,
    ]
)
def test_tasks(told: dict[Story, Future[None]], story: Story) -> None:
    told[story].result()
