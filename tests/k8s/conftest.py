"""A real Kubernetes for the tests in this folder, and a namespace of its own for each module."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest

from tests.cluster.availability import ClusterUnavailableError, is_required
from tests.cluster.cluster import Cluster, running_cluster

pytest.register_assert_rewrite("tests.k8s.lab")

from tests.k8s.lab import PodLab, pod_lab  # noqa: E402, what it asserts is to be told
from tests.k8s.pods import Pods  # noqa: E402
from tests.k8s.stories import Story, begin  # noqa: E402

_HERE = Path(__file__).parent
SECONDS = 1200
"""For a test with all that it waits for: on a busy machine a stack takes minutes to start."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks all tests of this folder, so that none is run with the quick ones by mistake."""
    for item in items:
        if item.path.is_relative_to(_HERE):
            item.add_marker(pytest.mark.k8s)
            item.add_marker(pytest.mark.timeout(SECONDS))


@pytest.fixture(scope="session")
def cluster(pytestconfig: pytest.Config) -> Iterator[Cluster]:
    """The cluster of KUBECONFIG, or our own; one that was not up before is down afterwards."""
    try:
        with running_cluster(_teller(pytestconfig)) as found:
            yield found
    except ClusterUnavailableError as error:
        reason = f"no Kubernetes: {error}"
        if is_required():
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)


@pytest.fixture(scope="module")
def namespace(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[str]:
    """A namespace that goes with the module."""
    module = request.module.__name__.rpartition(".")[2]
    with cluster.namespace(module.removeprefix("test_").replace("_", "-")) as name:
        yield name


@pytest.fixture
def pods(cluster: Cluster, namespace: str) -> Iterator[Pods]:
    """Starts pods that go with the test."""
    made = Pods(cluster, namespace)
    yield made
    made.remove_all()


@pytest.fixture(scope="session")
def lab(cluster: Cluster) -> Iterator[PodLab]:
    """One stack, and one namespace, for the studies of all modules."""
    with cluster.namespace("studies") as name, pod_lab(cluster, name) as made:
        yield made


@pytest.fixture(scope="session")
def told(lab: PodLab, request: pytest.FixtureRequest) -> dict[Story, Future[None]]:
    """The stories of all modules, begun together."""
    has_nodes_to_lose = lab.cluster.local is not None
    return begin(
        lab,
        [
            item
            for item in request.session.items
            if isinstance(item, pytest.Function)
            and (has_nodes_to_lose or "own_cluster" not in item.fixturenames)
        ],
    )


@pytest.fixture
def own_cluster(cluster: Cluster) -> Cluster:
    """Our own cluster, for tests that need its pools or lose a node of it."""
    if cluster.local is None:
        pytest.skip("only our own cluster has these nodes to lose, not that of KUBECONFIG")
    return cluster


def _teller(config: pytest.Config) -> Callable[[str], None]:
    """Prints while pytest captures, so that a start of some seconds does not look like a hang."""
    capture = config.pluginmanager.get_plugin("capturemanager")
    reporter = config.pluginmanager.get_plugin("terminalreporter")

    def tell(line: str) -> None:
        if capture is not None and reporter is not None:
            with capture.global_and_fixture_disabled():
                reporter.write_line(line)

    return tell
