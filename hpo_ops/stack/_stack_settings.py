"""Reads and writes the settings of a stack in its file `stack.json`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hpo_ops.stack._free_ports import LOOPBACK
from hpo_ops.stack._object_store import BUCKET
from hpo_ops.stack.stack_files import Layout, write_private
from hpo_ops.stack.stack_secrets import Secrets

USERNAME = "admin"


@dataclass(frozen=True)
class Settings:
    """The folders, ports and additional environment variables of a stack."""

    project: Path
    dags: Path
    plugins: Path
    port: int
    s3_port: int
    extra_environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"

    @property
    def s3_endpoint(self) -> str:
        return f"http://{LOOPBACK}:{self.s3_port}"

    @classmethod
    def of_project(cls, project: Path, *, port: int, s3_port: int) -> Settings:
        """Returns the settings of a stack for a project folder with `dags/` and `plugins/`."""
        return cls(
            project=project,
            dags=project / "dags",
            plugins=project / "plugins",
            port=port,
            s3_port=s3_port,
        )

    def write(self, layout: Layout, secrets: Secrets) -> None:
        """Writes the settings, and the URL and credentials of the stack, to `stack.json`.

        The CLI reads the URL and the credentials from this file.
        """
        content = {
            "url": self.url,
            "username": USERNAME,
            "password": secrets.admin_password,
            "s3": {
                "endpoint": self.s3_endpoint,
                "bucket": BUCKET,
                "access_key": secrets.s3_access_key,
                "secret_key": secrets.s3_secret_key,
            },
            "project": str(self.project),
            "dags": str(self.dags),
            "plugins": str(self.plugins),
            "port": self.port,
            "s3_port": self.s3_port,
            "extra_environment": dict(self.extra_environment),
        }
        write_private(layout.stack_file, json.dumps(content, indent=2) + "\n")

    @classmethod
    def read(cls, layout: Layout) -> Settings | None:
        """Reads the settings from `stack.json`; returns None if the stack was never started."""
        if not layout.stack_file.is_file():
            return None
        content = json.loads(layout.stack_file.read_text(encoding="utf-8"))
        return cls(
            project=Path(content["project"]),
            dags=Path(content["dags"]),
            plugins=Path(content["plugins"]),
            port=content["port"],
            s3_port=content["s3_port"],
            extra_environment=content["extra_environment"],
        )
