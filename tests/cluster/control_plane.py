"""The control plane: etcd, the API server, the controllers and the scheduler, on loopback."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.cluster.layout import HOST, Cache
from tests.cluster.machine import Program, Specification
from tests.cluster.pki import Authority

LOOPBACK = "127.0.0.1"
NAME = "control-plane"

# A node is given up after this, and its pods a little later, not after Kubernetes' 40 s and
# 5 minutes: tests of lost nodes would take too long. Far more than a kubelet's 2 s between signs
# of life, so that a busy machine does not look like a lost node.
NODE_GRACE_SECONDS = 15
TOLERATION_SECONDS = 3


@dataclass(frozen=True)
class ControlPlane:
    """The control plane of the cluster that has its state in one folder."""

    cache: Cache
    api_port: int
    etcd_port: int

    @property
    def run(self) -> Path:
        return self.cache.run

    @property
    def server(self) -> str:
        return f"https://{LOOPBACK}:{self.api_port}"

    @property
    def kubeconfig(self) -> Path:
        return self.run / "kubeconfig"

    @property
    def folder(self) -> Path:
        return self.run / NAME

    @property
    def _pki(self) -> Path:
        return self.run / "pki"

    def prepare(self) -> Authority:
        """Makes keys, certificates and the administrator's kubeconfig."""
        authority = Authority(self._pki)
        authority.make_service_account_key()
        authority.make_server("kube-apiserver", addresses=[LOOPBACK, "10.96.0.1"])
        authority.make_client("admin", group="system:masters")
        authority.write_kubeconfig(self.kubeconfig, server=self.server, user="admin")
        (self.folder / "etcd").mkdir(parents=True)
        return authority

    def specification(self) -> Specification:
        etcd = f"{LOOPBACK}:{self.etcd_port}"
        api = f"{LOOPBACK}:{self.api_port}"
        return Specification(
            folder=str(self.folder),
            in_memory=(str(self.folder / "etcd"),),
            programs=(
                Program("etcd", self._etcd()),
                Program("kube-apiserver", self._api_server(), after=etcd),
                Program("kube-controller-manager", self._controllers(), after=api),
                Program("kube-scheduler", self._scheduler(), after=api),
            ),
        )

    def _etcd(self) -> tuple[str, ...]:
        clients = f"http://{LOOPBACK}:{self.etcd_port}"
        peers = f"http://{LOOPBACK}:{self.etcd_port + 1}"
        return (
            str(self.cache.program("etcd")),
            f"--data-dir={self.folder / 'etcd' / 'data'}",
            f"--listen-client-urls={clients}",
            f"--advertise-client-urls={clients}",
            f"--listen-peer-urls={peers}",
            f"--initial-advertise-peer-urls={peers}",
            f"--initial-cluster=default={peers}",
        )

    def _api_server(self) -> tuple[str, ...]:
        pki = self._pki
        return (
            str(self.cache.program("kube-apiserver")),
            f"--etcd-servers=http://{LOOPBACK}:{self.etcd_port}",
            f"--bind-address={LOOPBACK}",
            f"--secure-port={self.api_port}",
            f"--advertise-address={HOST}",
            f"--cert-dir={self.folder / 'api-server'}",
            f"--client-ca-file={pki / 'ca.crt'}",
            f"--tls-cert-file={pki / 'kube-apiserver.crt'}",
            f"--tls-private-key-file={pki / 'kube-apiserver.key'}",
            f"--kubelet-client-certificate={pki / 'admin.crt'}",
            f"--kubelet-client-key={pki / 'admin.key'}",
            f"--kubelet-certificate-authority={pki / 'ca.crt'}",
            "--kubelet-preferred-address-types=InternalIP",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={pki / 'sa.pub'}",
            f"--service-account-signing-key-file={pki / 'sa.key'}",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--authorization-mode=RBAC",
            "--anonymous-auth=false",
            "--allow-privileged=true",
            f"--default-not-ready-toleration-seconds={TOLERATION_SECONDS}",
            f"--default-unreachable-toleration-seconds={TOLERATION_SECONDS}",
        )

    def _controllers(self) -> tuple[str, ...]:
        pki = self._pki
        return (
            str(self.cache.program("kube-controller-manager")),
            *self._client_options(),
            f"--service-account-private-key-file={pki / 'sa.key'}",
            f"--root-ca-file={pki / 'ca.crt'}",
            f"--cluster-signing-cert-file={pki / 'ca.crt'}",
            f"--cluster-signing-key-file={pki / 'ca.key'}",
            f"--flex-volume-plugin-dir={self.folder / 'volume-plugins'}",
            "--node-monitor-period=1s",
            f"--node-monitor-grace-period={NODE_GRACE_SECONDS}s",
        )

    def _scheduler(self) -> tuple[str, ...]:
        return (str(self.cache.program("kube-scheduler")), *self._client_options())

    def _client_options(self) -> tuple[str, ...]:
        return (
            f"--kubeconfig={self.kubeconfig}",
            "--leader-elect=false",
            # They serve nothing but figures about themselves.
            *(["--port=0"] if self.cache.version < (1, 23) else []),
            "--secure-port=0",
            "--kube-api-qps=100",
            "--kube-api-burst=200",
        )
