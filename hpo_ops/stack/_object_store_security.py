"""Writes security settings of SeaweedFS: every port except S3 requires a client certificate.

SeaweedFS is one process with several servers (master, volume, filer, admin) that by default accept
all requests. Here they use HTTPS and gRPC over TLS, and require a client certificate that only the
SeaweedFS process has. The filer also serves plain HTTP on a unix socket, which requires a token
signed with keys that are new at each start.

S3 itself requires access keys. The platform's keys have all permissions, and may assume the role
for pods. A session of this role is limited by the policy that the platform passes when it assumes
the role. A session cannot assume the role again, since the role trusts only the platform's user.
"""

from __future__ import annotations

import base64
import json
import secrets
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hpo_ops.stack._certificates import CertificateFiles, ensure_certificates
from hpo_ops.stack.stack_files import write_private

ACCOUNT = "000000000000"
"""The AWS account id in the ARNs of SeaweedFS's users and roles."""
POD_ROLE = "hpo-pod"
POD_ROLE_ARN = f"arn:aws:iam::{ACCOUNT}:role/{POD_ROLE}"
_GRPC = ("master", "volume", "filer", "s3", "admin", "worker", "client")
_HTTPS = ("master", "volume", "filer", "admin")
_TOKENS = ("jwt.filer_signing", "jwt.filer_signing.read")
_POD_ACTIONS = (
    "s3:GetObject",
    "s3:PutObject",
    "s3:DeleteObject",
    "s3:ListBucket",
    "s3:AbortMultipartUpload",
    "s3:ListMultipartUploadParts",
)


@dataclass(frozen=True)
class StoreSecurity:
    """The certificates and security settings of SeaweedFS, in one folder."""

    folder: Path

    def prepare(self, *, access_key: str, hosts: Sequence[str]) -> None:
        """Writes SeaweedFS's security settings, and new certificates if there are no valid ones.

        Certificates that expire soon are replaced too.

        Args:
            access_key: The platform's access key; only the user of this key may
                assume the role for pods.
            hosts: Host names and IP addresses under which the servers reach each other.
        """
        files = ensure_certificates(self.folder, hosts)
        write_private(self.folder / "security.toml", _security_toml(files))
        iam = _iam_settings(access_key, signing_key=self._signing_key())
        write_private(self._iam_file, json.dumps(iam, indent=2) + "\n")

    def command(self, options: Sequence[str]) -> list[str]:
        """Returns the command line that runs all servers of SeaweedFS (`weed mini`).

        Args:
            options: Additional options of `weed mini`.
        """
        return [
            str(Path(sys.executable).parent / "weed"),
            # By default it logs to files in the system's temporary folder.
            "-logtostderr=true",
            f"-config_dir={self.folder}",
            "mini",
            f"-s3.iam.config={self._iam_file}",
            "-webdav=false",
            "-admin.ui=false",
            "-s3.port.iceberg=0",
            "-s3.port.lance=0",
            "-master.telemetry=false",
            *options,
        ]

    @property
    def _iam_file(self) -> Path:
        return self.folder / "iam.json"

    def _signing_key(self) -> str:
        """Returns the key that signs the tokens of S3 sessions.

        The key is created at the first call and stored, so that sessions stay valid after a
        restart of SeaweedFS.
        """
        path = self.folder / "session_key"
        if not path.is_file():
            write_private(path, base64.b64encode(secrets.token_bytes(32)).decode())
        return path.read_text(encoding="utf-8")


def _security_toml(files: CertificateFiles) -> str:
    authority, pair = _toml(ca=files.authority), _toml(cert=files.certificate, key=files.key)
    sections = {
        **{name: _toml(key=secrets.token_hex(32)) for name in _TOKENS},
        "grpc": authority,
        **{f"grpc.{name}": pair for name in _GRPC},
        "https.client": f"enabled = true\n{pair}{authority}",
        **{f"https.{name}": pair + authority for name in _HTTPS},
    }
    return "\n".join(f"[{name}]\n{text}" for name, text in sections.items())


def _toml(**values: object) -> str:
    """Formats names and values as lines of TOML; TOML strings are quoted as in JSON."""
    return "".join(f"{name} = {json.dumps(str(value))}\n" for name, value in values.items())


def _iam_settings(access_key: str, *, signing_key: str) -> dict[str, object]:
    # SeaweedFS gives this name to the user of the keys in its environment.
    user = f"arn:aws:iam::{ACCOUNT}:user/admin-{access_key[:8]}"
    return {
        "sts": {
            "tokenDuration": "1h",
            "maxSessionLength": "12h",
            "issuer": "hpo-ops",
            "signingKey": signing_key,
        },
        "policy": {"defaultEffect": "Deny"},
        "roles": [
            {
                "roleName": POD_ROLE,
                "roleArn": POD_ROLE_ARN,
                "trustPolicy": _policy("sts:AssumeRole", Principal={"AWS": user}),
                "attachedPolicies": [POD_ROLE],
            }
        ],
        "policies": [
            {"name": POD_ROLE, "document": _policy(*_POD_ACTIONS, Resource=["arn:aws:s3:::*"])}
        ],
    }


def _policy(*actions: str, **rest: object) -> dict[str, object]:
    statement = {"Effect": "Allow", "Action": list(actions), **rest}
    return {"Version": "2012-10-17", "Statement": [statement]}
