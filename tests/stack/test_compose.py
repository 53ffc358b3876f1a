import json
import re
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.stack.airflow_options import unknown_options

PROJECT = Path(__file__).resolve().parents[2]
TEXT = (PROJECT / "docker-compose.yml").read_text()
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load(TEXT)["services"]
AIRFLOW = ("airflow-init", "api-server", "scheduler", "dag-processor", "triggerer")


def test_every_variable_is_in_the_example() -> None:
    example = (PROJECT / ".env.example").read_text()
    used = set(re.findall(r"(?<!\$)\$\{([A-Z0-9_]+)", TEXT))

    assert used == set(re.findall(r"^#?([A-Z0-9_]+)=", example, flags=re.MULTILINE))


def test_ports_are_published_on_loopback_only() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]

    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


@pytest.mark.parametrize("name", AIRFLOW)
def test_airflow_knows_every_option(name: str) -> None:
    environment = SERVICES[name]["environment"]

    assert unknown_options(environment) == []
    for connection in ("AIRFLOW_CONN_HPO_GATEWAY", "AIRFLOW_CONN_HPO_S3"):
        json.loads(environment[connection])


def test_only_the_api_server_gets_the_ledger() -> None:
    with_ledger = [
        name for name, service in SERVICES.items() if "HPO_LEDGER_URL" in service["environment"]
    ]

    assert with_ledger == ["api-server"]


def test_every_service_that_stays_has_a_health_check() -> None:
    without = {name for name, service in SERVICES.items() if "healthcheck" not in service}

    assert without == {"airflow-init"}


def test_only_what_needs_the_object_store_shares_a_network_with_it() -> None:
    networks = set(SERVICES["s3"]["networks"])
    sharing = {name for name, service in SERVICES.items() if networks & set(service["networks"])}

    assert sharing == {"s3", "api-server", "scheduler"}


def test_the_object_store_starts_with_its_security_settings() -> None:
    command = SERVICES["s3"]["command"].split()

    assert command[:3] == ["python", "-m", "hpo_ops.stack.serve_object_store"]
    assert "-webdav=true" not in command


@pytest.mark.parametrize("command", ["{python} {script} .env", "{python} {script} > .env"])
def test_secrets_are_written_for_their_owner_only(tmp_path: Path, command: str) -> None:
    filled = command.format(python=sys.executable, script=PROJECT / "docker" / "make_env.py")
    done = subprocess.run(["/bin/sh", "-c", f"umask 022; {filled}"], cwd=tmp_path, check=False)

    made = tmp_path / ".env"
    assert done.returncode == 0
    assert stat.S_IMODE(made.stat().st_mode) == 0o600
    written = dict(line.split("=", 1) for line in made.read_text().splitlines())
    example = (PROJECT / ".env.example").read_text()
    assert set(written) == set(re.findall(r"^([A-Z0-9_]+)=", example, flags=re.MULTILINE))
    assert all(written.values())


def test_secrets_in_use_are_not_replaced(tmp_path: Path) -> None:
    made = tmp_path / ".env"
    made.write_text("KEY=kept\n")
    script = str(PROJECT / "docker" / "make_env.py")
    done = subprocess.run(
        [sys.executable, script, str(made)], capture_output=True, text=True, check=False
    )

    assert done.returncode == 1
    assert "is there already" in done.stderr
    assert made.read_text() == "KEY=kept\n"
