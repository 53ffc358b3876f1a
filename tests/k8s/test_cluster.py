"""The cluster does what tests of pods rely on: it runs them, lets them wait, and loses them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

from tests.cluster.cluster import Cluster
from tests.k8s.pods import TOLERATE_GPU, TOLERATE_SPOT, PodRequest, Pods, eventually

SLEEP = ("sh", "-c", "trap 'exit 143' TERM; echo started; while :; do sleep 0.1; done")


def test_a_pod_runs_and_its_log_can_be_read(pods: Pods) -> None:
    pods.start(PodRequest("hello", ("echo", "hello")))
    eventually(lambda: pods.phase("hello") == "Succeeded")
    assert pods.log("hello") == "hello\n"


def test_a_pod_that_fails_says_how(pods: Pods) -> None:
    pods.start(PodRequest("fails", ("sh", "-c", "echo oops >&2; exit 3")))
    eventually(lambda: pods.phase("fails") == "Failed")
    failed = pods.find("fails")
    assert failed is not None
    assert failed.status.container_statuses[0].state.terminated.exit_code == 3
    assert pods.log("fails") == "oops\n"


def test_the_image_has_the_present_code(own_cluster: Cluster, pods: Pods) -> None:
    code = "import hpo_ops.agent, hpo_ops.sdk, hpo_ops.checkpoints; print(hpo_ops.__version__)"
    pods.start(PodRequest("code", ("python3", "-c", code), image=own_cluster.images.python))
    eventually(lambda: pods.phase("code") in ("Succeeded", "Failed"))
    import hpo_ops

    assert pods.log("code") == f"{hpo_ops.__version__}\n"


def test_a_third_gpu_pod_waits_until_one_of_two_ends(own_cluster: Cluster, pods: Pods) -> None:
    for name in ("first", "second", "third"):
        pods.start(PodRequest(name, SLEEP, pool="gpu", gpus=1, tolerations=[TOLERATE_GPU]))
    eventually(lambda: [pods.phase(it) for it in ("first", "second")] == ["Running"] * 2)
    eventually(lambda: "Insufficient nvidia.com/gpu" in pods.why_pending("third"))
    assert pods.phase("third") == "Pending"
    pods.remove("first")
    eventually(lambda: pods.phase("third") == "Running")


def test_shares_of_a_gpu_are_counted(own_cluster: Cluster, pods: Pods) -> None:
    names = [f"share-{number}" for number in range(4)]
    for name in [*names, "fifth"]:
        pods.start(PodRequest(name, SLEEP, pool="gpu-shared", gpus=1, tolerations=[TOLERATE_GPU]))
    eventually(lambda: all(pods.phase(name) == "Running" for name in names))
    eventually(lambda: pods.why_pending("fifth"))
    assert pods.phase("fifth") == "Pending"


def test_only_a_pod_that_tolerates_gpus_is_placed_on_them(
    own_cluster: Cluster, pods: Pods
) -> None:
    pods.start(PodRequest("anywhere", SLEEP))
    pods.start(PodRequest("intruder", SLEEP, pool="gpu"))
    eventually(lambda: pods.phase("anywhere") == "Running")
    eventually(lambda: pods.why_pending("intruder"))
    placed = pods.find("anywhere")
    assert placed is not None
    assert placed.spec.node_name in own_cluster.pools["cpu"]


def test_a_pod_reaches_a_server_on_this_machine(own_cluster: Cluster, pods: Pods) -> None:
    with serving("for pods") as port, own_cluster.expose(port) as exposed:
        url = f"http://{own_cluster.host}:{exposed}/"
        pods.start(PodRequest("caller", ("wget", "-q", "-O", "-", url)))
        eventually(lambda: pods.phase("caller") in ("Succeeded", "Failed"))
        assert pods.log("caller") == "for pods"


def test_a_lost_node_takes_its_pod_along_and_comes_back(own_cluster: Cluster, pods: Pods) -> None:
    local = own_cluster.local
    assert local is not None
    spot = PodRequest(
        "on-spot", SLEEP, pool="spot", gpus=1, tolerations=[TOLERATE_GPU, TOLERATE_SPOT]
    )
    pods.start(spot)
    eventually(lambda: pods.phase("on-spot") == "Running")
    local.lose("spot-0")
    try:
        eventually(lambda: ("spot-0", False) in local.status())
        eventually(lambda: is_given_up(pods, "on-spot"))
    finally:
        local.replace("spot-0")
    # What was given up ends for good when a kubelet is back, and there is room again.
    eventually(lambda: pods.phase("on-spot") == "gone")
    pods.start(PodRequest("again", ("true",), pool="spot", gpus=2, tolerations=spot.tolerations))
    eventually(lambda: pods.phase("again") == "Succeeded")


def is_given_up(pods: Pods, name: str) -> bool:
    pod = pods.find(name)
    return pod is None or pod.metadata.deletion_timestamp is not None


@contextmanager
def serving(answer: str) -> Iterator[int]:
    """Serves one answer on loopback."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(answer.encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()
