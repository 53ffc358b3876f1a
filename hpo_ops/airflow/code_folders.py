"""Unpacks training code from the store into a folder of this worker machine."""

from __future__ import annotations

from pathlib import Path

from hpo_ops.airflow._running_studies import code_folder
from hpo_ops.airflow.connections import default_store, store_credentials
from hpo_ops.checkpoints import BadCodeError, open_store
from hpo_ops.checkpoints.allowed_stores import AllowedStores
from hpo_ops.checkpoints.code_archive import archive_name, local_code, split_address


def unpack_code(address: str) -> Path:
    """Returns the local folder of a code archive; unpacks the archive if the folder is missing.

    Args:
        address: The archive's URL in a store.

    Raises:
        BadCodeError: `address` is not the address of a code archive, the store is not allowed,
            or the archive is invalid.
    """
    store, name = split_address(address)
    try:
        AllowedStores.from_environment().check(store)
    except ValueError as error:
        raise BadCodeError(f"code is {address!r}: {error}") from error
    return local_code(open_store(store, store_credentials()), name, code_folder())


def present_code(code: str) -> Path:
    """Returns the code folder of a study on this machine.

    If the task `prepare` unpacked the code archive on another machine, the archive is also
    unpacked on this machine.

    Args:
        code: Path of the code folder on the machine of `prepare`.
    """
    folder = Path(code)
    store = default_store()
    if folder.parent == code_folder() and not folder.is_dir() and store is not None:
        return unpack_code(f"{store.rstrip('/')}/{archive_name(folder.name)}")
    return folder
