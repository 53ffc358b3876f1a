"""What the Docker Engine is asked for."""

from pathlib import Path
from typing import Any

import pytest

from hpo_ops.config import Resources
from hpo_ops.protocol import Assignment
from hpo_ops.runners.docker._container_spec import (
    NOBODY,
    MemoryPlan,
    SegmentContainer,
    User,
    build_spec,
    plan_memory,
)


def a_plan(tmp_path: Path, **changes: Any) -> SegmentContainer:
    return SegmentContainer(
        **{
            "assignment": Assignment(
                study="cifar", trial=3, segment="s-1", params={}, metrics=["loss"]
            ),
            "study": "cifar/manual__2026-11-18T10:00:00+00:00",
            "command": "python train.py --name 'two words'",
            "image": "team/image:2",
            "code": tmp_path / "code",
            "user": User(uid=1000, gid=1001),
            **changes,
        }
    )


def host_config(plan: SegmentContainer) -> dict[str, Any]:
    config = build_spec(plan, Path("/folder/workspace"))["HostConfig"]
    assert isinstance(config, dict)
    return config


def test_the_command_runs_in_the_code_folder_in_place_of_the_images_entry_point(
    tmp_path: Path,
) -> None:
    spec = build_spec(a_plan(tmp_path), tmp_path)
    assert spec["Image"] == "team/image:2"
    assert spec["Entrypoint"] == ["python"]
    assert spec["Cmd"] == ["train.py", "--name", "two words"]
    assert spec["WorkingDir"] == "/hpo-code"


def test_the_workspace_can_be_written_and_the_code_cannot(tmp_path: Path) -> None:
    workspace, code = host_config(a_plan(tmp_path))["Mounts"]
    assert workspace == {"Type": "bind", "Source": "/folder/workspace", "Target": "/hpo"}
    assert (code["Target"], code["ReadOnly"]) == ("/hpo-code", True)


def test_an_image_that_has_the_code_keeps_its_own_folder(tmp_path: Path) -> None:
    plan = a_plan(tmp_path, code=None)
    assert "WorkingDir" not in build_spec(plan, tmp_path)
    assert [mount["Target"] for mount in host_config(plan)["Mounts"]] == ["/hpo"]


@pytest.mark.parametrize(
    ("ooms", "plan"),
    [
        (0, MemoryPlan(now="1Gi", next="2Gi")),
        (1, MemoryPlan(now="2Gi", next="4Gi")),
        (2, MemoryPlan(now="4Gi", next=None)),
        (3, MemoryPlan(now="4Gi", next=None)),
    ],
)
def test_a_trial_that_ran_out_of_memory_gets_more_the_next_time(
    ooms: int, plan: MemoryPlan
) -> None:
    resources = Resources(memory="1Gi", memory_on_oom=("2Gi", "4Gi"))
    assert plan_memory(resources, ooms=ooms) == plan


def test_a_container_is_known_by_its_labels(tmp_path: Path) -> None:
    assert build_spec(a_plan(tmp_path), tmp_path)["Labels"] == {
        "hpo-ops/managed": "true",
        "hpo-ops/study": "cifar/manual__2026-11-18T10:00:00+00:00",
        "hpo-ops/trial": "3",
        "hpo-ops/segment": "s-1",
    }


def test_the_study_cannot_move_the_workspace_and_gets_no_variable_of_the_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HPO_TOKEN", "secret")
    plan = a_plan(tmp_path, environment={"LEVEL": "3", "HOME": "/hpo", "HPO_DIR": "/elsewhere"})
    assert build_spec(plan, tmp_path)["Env"] == [
        "HOME=/hpo",
        "PYTHONUNBUFFERED=1",
        "LEVEL=3",
        "HPO_DIR=/hpo",
    ]


def test_a_training_has_no_network_and_no_rights(tmp_path: Path) -> None:
    config = host_config(a_plan(tmp_path))
    assert config["NetworkMode"] == "none"
    assert config["CapDrop"] == ["ALL"]
    assert config["SecurityOpt"] == ["no-new-privileges"]
    assert config["ReadonlyRootfs"] is True
    assert config["PidsLimit"] > 0


def test_resources_are_limits(tmp_path: Path) -> None:
    config = host_config(a_plan(tmp_path, resources=Resources(cpu="1500m", memory="1Gi")))
    assert config["NanoCpus"] == 1_500_000_000
    assert config["Memory"] == config["MemorySwap"] == config["ShmSize"] == 1 << 30
    assert "DeviceRequests" not in config


def test_gpus_are_asked_for_by_index_and_named_in_a_label(tmp_path: Path) -> None:
    plan = a_plan(tmp_path, resources=Resources(gpu=2), gpus=(1, 3))
    (request,) = host_config(plan)["DeviceRequests"]
    assert (request["DeviceIDs"], request["Capabilities"]) == (["1", "3"], [["gpu"]])
    assert plan.labels["hpo-ops/gpus"] == "1,3"


def test_a_worker_that_is_root_runs_trainings_as_nobody() -> None:
    assert User.beside(0, 0) == User(uid=NOBODY, gid=NOBODY)
    assert User.beside(1000, 100) == User(uid=1000, gid=100)


def test_a_name_is_one_that_docker_takes(tmp_path: Path) -> None:
    assert a_plan(tmp_path).name == "hpo-cifar-manual-2026-11-18T10-00-00-00-00-3-s-1"
    assert a_plan(tmp_path, study="åäö").name == "hpo-study-3-s-1"
