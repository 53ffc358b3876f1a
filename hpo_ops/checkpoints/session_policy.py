"""Builds S3 session policies, which limit a pod's temporary credentials to one trial's objects."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from hpo_ops.checkpoints.manifest import check_path

_PLAIN = re.compile(r"[A-Za-z0-9_.=+@,:/-]+")
"""Matches paths without characters that a policy interprets as wildcards or variables."""


@dataclass(frozen=True, kw_only=True)
class StoreAccess:
    """The part of an object store that temporary credentials (an S3 session) may access.

    All paths are relative to the store's URL.

    Attributes:
        store: The store's URL, such as ``s3://bucket/prefix``.
        writable: Folders whose objects may be listed, read, written and deleted.
        readable: Folders whose objects may be listed and read.
        objects: Single objects that may be read.
    """

    store: str
    writable: Sequence[str]
    readable: Sequence[str] = ()
    objects: Sequence[str] = ()


def session_policy(access: StoreAccess, *, partition: str = "aws") -> str:
    """Returns the S3 session policy, as JSON, that allows only the given access.

    Args:
        access: The allowed part of the store.
        partition: The AWS partition in resource names (ARNs), such as ``aws`` or ``aws-cn``.

    Raises:
        ValueError: The store is not in S3, or a path has special characters, such as wildcards.
    """
    parts = urlsplit(access.store)
    if parts.scheme != "s3" or not parts.netloc:
        raise ValueError(f"store is {access.store!r}, but credentials are for s3:// stores only")
    bucket = f"arn:{partition}:s3:::{parts.netloc}"
    base = f"{parts.path.strip('/')}/".lstrip("/")
    folders = [f"{base}{_checked(path)}/" for path in (*access.readable, *access.writable)]
    readable = [f"{folder}*" for folder in _outermost(folders)]
    writable = [f"{base}{_checked(path)}/*" for path in access.writable]
    objects = [f"{base}{_checked(path)}" for path in access.objects]
    statements = [
        _allow("GetObject", resource=[f"{bucket}/{key}" for key in (*readable, *objects)]),
        _allow(
            "PutObject",
            "DeleteObject",
            "AbortMultipartUpload",
            "ListMultipartUploadParts",
            resource=[f"{bucket}/{key}" for key in writable],
        ),
        {
            **_allow("ListBucket", resource=[bucket]),
            "Condition": {"StringLike": {"s3:prefix": readable}},
        },
    ]
    allowed = [statement for statement in statements if statement["Resource"]]
    return json.dumps({"Version": "2012-10-17", "Statement": allowed}, separators=(",", ":"))


def _outermost(folders: Sequence[str]) -> list[str]:
    """Returns the folders that are not inside another of the folders, without duplicates.

    This shortens the policy, since AWS limits its length to 2,048 characters.
    """
    return [
        folder
        for folder in dict.fromkeys(folders)
        if not any(folder != other and folder.startswith(other) for other in folders)
    ]


def _allow(*actions: str, resource: Sequence[str]) -> dict[str, object]:
    return {
        "Effect": "Allow",
        "Action": [f"s3:{action}" for action in actions],
        "Resource": list(resource),
    }


def _checked(path: str) -> str:
    check_path(path)
    if not _PLAIN.fullmatch(path):
        raise ValueError(f"path {path!r} has characters that a policy would interpret")
    return path
