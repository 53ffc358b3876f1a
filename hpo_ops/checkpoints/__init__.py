"""The object store: checkpoints, training code and logs of studies.

    <store>/<study>/trials/<trial>/<step>/<files...>   and manifest.json, uploaded last
    <store>/<study>/best/<files...>                    and manifest.json, uploaded last
    <store>/<study>/logs/<trial>/<segment>/<container>/<part>.log
    <store>/code/<hash>.tar.gz
    <store>/archives/<file_name>                       code archives that jobs refer to by name

A checkpoint (the state of a trial after a step) is complete once its manifest is in the store, so
that a partial upload is never restored. A segment is one uninterrupted execution of a trial.
"""

from hpo_ops.checkpoints._checkpoint_folder import BadCheckpointError
from hpo_ops.checkpoints._checkpoints import CheckpointRef, Checkpoints, CorruptCheckpointError
from hpo_ops.checkpoints._object_stores import STORE_ERRORS, Credentials, Store, open_store
from hpo_ops.checkpoints._pod_logs import LogRef, Logs
from hpo_ops.checkpoints.code_archive import fetch_code
from hpo_ops.checkpoints.code_upload import (
    BadCodeError,
    copy_code,
    find_packages,
    hash_code,
    upload_code,
)
from hpo_ops.checkpoints.manifest import Manifest, ManifestFile

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
