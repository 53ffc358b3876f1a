"""Runs SeaweedFS with its security settings, in a container: see docker-compose.yml.

`python -m hpo_ops.stack.serve_object_store --security FOLDER --host NAME -- OPTIONS` makes
certificates in the folder where there are none, then becomes `weed mini OPTIONS`. S3's keys are
`AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY` of the environment.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from hpo_ops.stack.free_ports import LOOPBACK
from hpo_ops.stack.object_store_security import StoreSecurity


def main(arguments: list[str] | None = None) -> None:
    """Prepares the folder and becomes the server."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--security", type=Path, required=True, help="folder of certificates")
    parser.add_argument("--host", required=True, help="the server's own name on its network")
    parser.add_argument("options", nargs="*", help="options of `weed mini`, after --")
    given = parser.parse_args(arguments)
    keys = [
        name for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY") if os.environ.get(name)
    ]
    if len(keys) < 2:
        parser.error("AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY must be set: S3's keys")
    security = StoreSecurity(given.security)
    security.prepare(
        access_key=os.environ["AWS_ACCESS_KEY_ID"], hosts=[given.host, "localhost", LOOPBACK]
    )
    command = security.command([f"-ip={given.host}", *given.options])
    os.execv(command[0], command)  # noqa: S606  becomes the server


if __name__ == "__main__":
    main()
