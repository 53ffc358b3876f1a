"""Builds, starts and stops the cluster of the tests."""

from __future__ import annotations

import argparse
import os
import sys

from tests.cluster.availability import ClusterUnavailableError, is_required, why_not_here
from tests.cluster.build import build
from tests.cluster.cluster import KUBECONFIG, in_use
from tests.cluster.layout import Cache
from tests.cluster.local import LocalCluster


def main(arguments: list[str]) -> int:
    """Runs one command and returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.cluster", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    builder = commands.add_parser("build", help="builds what is missing, into the user's cache")
    builder.add_argument(
        "--if-possible",
        action="store_true",
        help="where it cannot be built, says why and succeeds",
    )
    commands.add_parser("up", help="starts the cluster, and builds it first if need be")
    commands.add_parser("down", help="stops the cluster and removes all that it has added")
    commands.add_parser("status", help="says how its nodes are doing")
    commands.add_parser("kubeconfig", help="prints where its kubeconfig is")
    chosen = parser.parse_args(arguments)
    cluster = LocalCluster(Cache.of_user())
    try:
        match chosen.command:
            case "build":
                return _build(is_optional=chosen.if_possible)
            case "up":
                _check()
                build(Cache.of_user(), _say)
                with in_use(Cache.of_user(), _say):
                    cluster.up(_say)
            case "down":
                with in_use(Cache.of_user(), _say):
                    cluster.down()
            case "status":
                return _status(cluster)
            case "kubeconfig":
                _say(str(cluster.kubeconfig))
    except ClusterUnavailableError as error:
        _say(f"no cluster: {error}")
        return 1
    return 0


def _build(*, is_optional: bool) -> int:
    if is_optional and os.environ.get(KUBECONFIG):
        _say(f"the tests use the cluster of {KUBECONFIG}={os.environ[KUBECONFIG]}")
        return 0
    try:
        _check()
        build(Cache.of_user(), _say)
    except ClusterUnavailableError as error:
        if not is_optional or is_required():
            raise
        _say(f"no cluster for the tests: {error}")
    return 0


def _check() -> None:
    reason = why_not_here()
    if reason is not None:
        raise ClusterUnavailableError(reason)


def _status(cluster: LocalCluster) -> int:
    if not cluster.is_started():
        _say("down")
        return 1
    for name, is_ready in cluster.status():
        _say(f"{name:14} {'ready' if is_ready else 'NOT READY'}")
    return 0 if cluster.is_up() else 1


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
