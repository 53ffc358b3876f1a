"""Which stores studies may use: addresses that the operator has listed, and what is below them.

A study is opened with the platform's own keys and rights. Without this list it could name any
bucket that the keys reach, or any folder of the worker.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

OWN_STORE_VARIABLE = "HPO_CHECKPOINT_STORE"
ALLOWED_STORES_VARIABLE = "HPO_ALLOWED_STORES"
_AMBIGUOUS = "%?#\\@;"
"""Characters by which an address could mean another place than it seems to."""


@dataclass(frozen=True)
class AllowedStores:
    """The addresses that studies may use.

    >>> AllowedStores(("s3://hpo/team",)).check("s3://hpo/team/a")
    """

    addresses: tuple[str, ...]

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> AllowedStores:
        """The platform's own store, and those of `HPO_ALLOWED_STORES`, separated by commas.

        Raises:
            ValueError: One of them is not an address of a store.
        """
        own = environment.get(OWN_STORE_VARIABLE, "").strip()
        more = environment.get(ALLOWED_STORES_VARIABLE, "").split(",")
        listed = [address.strip() for address in more if address.strip()]
        for address in listed:
            try:
                _parse(address)
            except ValueError as error:
                raise ValueError(f"{ALLOWED_STORES_VARIABLE}: {error}") from error
        return cls(tuple(filter(None, (own, *listed))))

    def check(self, address: str) -> None:
        """Refuses an address that is neither listed nor below one that is.

        Raises:
            ValueError: The address may not be used; says which may.
        """
        if address in self.addresses or any(
            _is_below(address, allowed) for allowed in self.addresses
        ):
            return
        listed = ", ".join(self.addresses) or "none"
        raise ValueError(
            f"store is {address!r}, but must be one of those that the operator allows, or below "
            f"one ({listed}; {OWN_STORE_VARIABLE}, {ALLOWED_STORES_VARIABLE})"
        )


def _is_below(address: str, allowed: str) -> bool:
    try:
        place, start = _parse(address), _parse(allowed)
    except ValueError:
        return False
    return place[: len(start)] == start


def _parse(address: str) -> tuple[str, ...]:
    """Scheme, bucket and folders of an address that can be understood in one way only."""
    if not address.isprintable() or " " in address or any(it in address for it in _AMBIGUOUS):
        raise ValueError(f"store is {address!r}, but must not have blanks or any of {_AMBIGUOUS}")
    parts = urlsplit(address)
    is_address = (parts.scheme == "s3" and parts.netloc and ":" not in parts.netloc) or (
        parts.scheme == "file" and not parts.netloc and parts.path.startswith("/")
    )
    if not is_address:
        raise ValueError(f"store is {address!r}, but must be s3://bucket/path or file:///path")
    folders = parts.path.removeprefix("/").removesuffix("/").split("/")
    if folders == [""]:
        folders = []
    if not {"", ".", ".."}.isdisjoint(folders):
        raise ValueError(f"store is {address!r}, but must not have '.', '..' or '//' in its path")
    return (parts.scheme, parts.netloc, *folders)
