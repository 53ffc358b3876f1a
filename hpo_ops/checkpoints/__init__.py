"""What is in the object store: checkpoints above all, training code, and logs.

    <store>/<study>/trials/<trial>/<step>/<files...>   and manifest.json, uploaded last
    <store>/<study>/best/<files...>                    and manifest.json, uploaded last
    <store>/<study>/logs/<trial>/<segment>/<container>/<part>.log
    <store>/code/<hash>.tar.gz
    <store>/archives/<file_name>                       what jobs name instead of sending it

A checkpoint counts only with its manifest, so half of one is never restored.
"""

from hpo_ops.checkpoints.checkpoint_folder import BadCheckpointError
from hpo_ops.checkpoints.checkpoints import CheckpointRef, Checkpoints, CorruptCheckpointError
from hpo_ops.checkpoints.code_archive import fetch_code
from hpo_ops.checkpoints.code_upload import (
    BadCodeError,
    copy_code,
    find_packages,
    hash_code,
    upload_code,
)
from hpo_ops.checkpoints.manifest import Manifest, ManifestFile
from hpo_ops.checkpoints.object_stores import STORE_ERRORS, Credentials, Store, open_store
from hpo_ops.checkpoints.pod_logs import LogRef, Logs

__all__ = [
    "STORE_ERRORS",
    "BadCheckpointError",
    "BadCodeError",
    "CheckpointRef",
    "Checkpoints",
    "CorruptCheckpointError",
    "Credentials",
    "LogRef",
    "Logs",
    "Manifest",
    "ManifestFile",
    "Store",
    "copy_code",
    "fetch_code",
    "find_packages",
    "hash_code",
    "open_store",
    "upload_code",
]
