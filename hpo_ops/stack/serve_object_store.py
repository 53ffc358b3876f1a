"""Runs SeaweedFS with security settings in a container, as docker-compose.yml does.

`python -m hpo_ops.stack.serve_object_store --security FOLDER --host NAME -- OPTIONS` creates
certificates in the folder if there are none, and then executes `weed mini OPTIONS`. The S3 keys
are `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY` of the environment.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from hpo_ops.stack._free_ports import LOOPBACK
from hpo_ops.stack._object_store_security import StoreSecurity


def main(arguments: list[str] | None = None) -> None:
    """Writes SeaweedFS's certificates and settings, then replaces this process with SeaweedFS."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--security", type=Path, required=True, help="folder of certificates")
    parser.add_argument("--host", required=True, help="the server's own name on its network")
    parser.add_argument("options", nargs="*", help="options of `weed mini`, after --")
    given = parser.parse_args(arguments)
    keys = [
        name for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY") if os.environ.get(name)
    ]
    if len(keys) < 2:
        parser.error("set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY: the keys of S3")
    security = StoreSecurity(given.security)
    security.prepare(
        access_key=os.environ["AWS_ACCESS_KEY_ID"], hosts=[given.host, "localhost", LOOPBACK]
    )
    command = security.command([f"-ip={given.host}", *given.options])
    os.execv(command[0], command)  # noqa: S606  becomes the server


if __name__ == "__main__":
    main()
