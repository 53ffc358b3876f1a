"""The NetworkPolicies that are shipped for pods of studies: what they open and what not."""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import pytest
import yaml

from hpo_ops.runners.kubernetes._pod_names import MANAGED_BY

FILE = Path(__file__).parents[2] / "k8s_pod_templates" / "network" / "network_policies.yaml"
POLICIES: list[dict[str, Any]] = list(yaml.safe_load_all(FILE.read_text(encoding="utf-8")))


def reaches(address: str, port: int) -> bool:
    """Whether a pod of a study may connect to an address outside of its cluster."""
    return any(
        is_in(address, peer["ipBlock"])
        for policy in POLICIES
        for rule in policy["spec"].get("egress", ())
        for peer in rule["to"]
        if "ipBlock" in peer and any(item["port"] == port for item in rule["ports"])
    )


def is_in(address: str, block: dict[str, Any]) -> bool:
    found = ip_address(address)
    return found in ip_network(block["cidr"]) and not any(
        found in ip_network(item) for item in block.get("except", ())
    )


def test_all_pods_of_studies_and_no_others_are_meant() -> None:
    for policy in POLICIES:
        assert policy["spec"]["podSelector"] == {"matchLabels": MANAGED_BY}


def test_nothing_reaches_them_and_they_reach_nothing_that_is_not_opened() -> None:
    assert not any("ingress" in policy["spec"] for policy in POLICIES)
    closed = [policy for policy in POLICIES if "egress" not in policy["spec"]]
    assert [policy["spec"]["policyTypes"] for policy in closed] == [["Ingress", "Egress"]]
    for policy in POLICIES:
        for rule in policy["spec"].get("egress", ()):
            # Without one of the two a rule opens everything.
            assert rule["to"]
            assert rule["ports"]


@pytest.mark.parametrize(
    "address",
    ["169.254.169.254", "169.254.170.2", "10.96.0.1", "172.20.0.1", "192.168.1.1", "127.0.0.1",
     "100.100.100.200", "fd00:ec2::254", "fe80::1", "::1", "::ffff:169.254.169.254"],
)  # fmt: skip
def test_metadata_services_and_inner_addresses_stay_closed(address: str) -> None:
    assert not reaches(address, 443)
    assert not reaches(address, 80)


def test_public_addresses_are_open_for_https_only() -> None:
    assert reaches("151.101.0.223", 443)
    assert not reaches("151.101.0.223", 22)
