"""Checkpoints in an object store: upload, restore, publish, collect.

    <store>/<study>/trials/<trial>/<step>/<files...>   and manifest.json, uploaded last
    <store>/<study>/best/<files...>                    and manifest.json, uploaded last

A checkpoint counts only with its manifest, so half of one is never restored.
"""

from hpo_ops.checkpoints.checkpoints import CheckpointRef, Checkpoints, CorruptCheckpointError
from hpo_ops.checkpoints.folder import BadCheckpointError
from hpo_ops.checkpoints.manifest import Manifest, ManifestFile
from hpo_ops.checkpoints.store import STORE_ERRORS, Credentials, Store, open_store

__all__ = [
    "STORE_ERRORS",
    "BadCheckpointError",
    "CheckpointRef",
    "Checkpoints",
    "CorruptCheckpointError",
    "Credentials",
    "Manifest",
    "ManifestFile",
    "Store",
    "open_store",
]
