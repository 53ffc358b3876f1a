"""Training code that comes from the store, as a folder of this machine's."""

from __future__ import annotations

from pathlib import Path

from hpo_ops.airflow.connections import default_store, store_credentials
from hpo_ops.airflow.running_studies import code_folder
from hpo_ops.checkpoints import BadCodeError, open_store
from hpo_ops.checkpoints.allowed_stores import AllowedStores
from hpo_ops.checkpoints.code_archive import archive_name, local_code, split_address


def unpack_code(address: str) -> Path:
    """The folder with the code of an archive in a store.

    Raises:
        BadCodeError: It is no address of packed code, its store is not allowed, or it is broken.
    """
    store, name = split_address(address)
    try:
        AllowedStores.from_environment().check(store)
    except ValueError as error:
        raise BadCodeError(f"code is {address!r}: {error}") from error
    return local_code(open_store(store, store_credentials()), name, code_folder())


def present_code(code: str) -> Path:
    """A study's code folder; where another worker has unpacked it, it is unpacked here too."""
    folder = Path(code)
    store = default_store()
    if folder.parent == code_folder() and not folder.is_dir() and store is not None:
        return unpack_code(f"{store.rstrip('/')}/{archive_name(folder.name)}")
    return folder
