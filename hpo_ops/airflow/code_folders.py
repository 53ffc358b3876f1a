"""Training code from the store, unpacked into a folder of this worker."""

from __future__ import annotations

from pathlib import Path

from hpo_ops.airflow._running_studies import code_folder
from hpo_ops.airflow.connections import default_store, store_credentials
from hpo_ops.checkpoints import BadCodeError, open_store
from hpo_ops.checkpoints.allowed_stores import AllowedStores
from hpo_ops.checkpoints.code_archive import archive_name, local_code, split_address


def unpack_code(address: str) -> Path:
    """Unpacks a code archive of a store, unless it is unpacked already; returns the folder.

    Raises:
        BadCodeError: The address is not that of a code archive, its store is not allowed, or the
            archive is broken.
    """
    store, name = split_address(address)
    try:
        AllowedStores.from_environment().check(store)
    except ValueError as error:
        raise BadCodeError(f"code is {address!r}: {error}") from error
    return local_code(open_store(store, store_credentials()), name, code_folder())


def present_code(code: str) -> Path:
    """The code folder of a study on this worker.

    Code from an archive may have been unpacked by another worker only: then it is unpacked here.
    """
    folder = Path(code)
    store = default_store()
    if folder.parent == code_folder() and not folder.is_dir() and store is not None:
        return unpack_code(f"{store.rstrip('/')}/{archive_name(folder.name)}")
    return folder
