from __future__ import annotations

import re
from pathlib import Path

import pytest

from hpo_ops.config.pod_policy import PodPolicy, load_pod_policy, matches


def write(folder: Path, text: str) -> Path:
    file = folder / "policy.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def test_a_file_that_says_nothing_has_the_defaults(tmp_path: Path) -> None:
    assert load_pod_policy(write(tmp_path, "# later\n")) == PodPolicy()


def test_the_defaults_allow_no_host_no_privilege_no_identity() -> None:
    policy = PodPolicy()
    assert "hostPath" not in policy.volumes
    assert not any(
        (
            policy.root,
            policy.namespaces,
            policy.service_accounts,
            policy.service_account_token,
            policy.host_paths,
            policy.capabilities,
            policy.security_context,
            policy.spec_fields,
        )
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("privileged: true", "privileged is not a key that a pod policy has"),
        ("namespace: [ml]", "did you mean namespaces?"),
        ("namespaces: ml", "namespaces is 'ml'"),
        ("namespaces: ['']", "namespaces.0 is empty"),
        ("root: maybe", "root is 'maybe', but must be true or false"),
        ("host_paths: [data]", "host_paths.0 is 'data', but must be an absolute path"),
        ("host_paths: [/data/../etc]", "but must be an absolute path without '..'"),
        ("spec_fields: [shareProcessNamespace]", "spec_fields has shareProcessNamespace"),
        ("spec_fields: [containers]", "spec_fields has containers"),
        ("- a", "must be a mapping"),
        ("a: [", "cannot be read"),
    ],
)
def test_a_file_that_cannot_be_used_says_where_and_why(
    tmp_path: Path, text: str, problem: str
) -> None:
    file = write(tmp_path, text)
    with pytest.raises(ValueError, match=r"policy\.yaml") as raised:
        load_pod_policy(file)
    assert problem in str(raised.value)


def test_a_file_that_is_not_there_is_an_error_not_a_default(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot be read"):
        load_pod_policy(tmp_path / "none.yaml")


def test_a_pattern_does_not_reach_past_its_end() -> None:
    assert matches("registry.example.org/team/model:1", ["registry.example.org/team/*"])
    assert not matches("registry.example.org/teams/model:1", ["registry.example.org/team/*"])
    assert not matches("registry.example.org.evil.example/team/x", ["registry.example.org/team/*"])


def test_the_policy_on_the_page_can_be_used(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "docs" / "kubernetes.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```yaml\n(# pod_policy\.yaml\n.*?)```", text, re.DOTALL)
    assert load_pod_policy(write(tmp_path, block)).service_accounts == ("trainer",)
    for key in PodPolicy.model_fields:
        assert f"`{key}`" in text
