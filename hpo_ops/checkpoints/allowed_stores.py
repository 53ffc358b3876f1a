"""The operator's allowlist of object stores: a study may use a listed URL or a path below it.

The platform opens a study's store with the platform's own credentials and file permissions.
Without this list a study could name any bucket that the credentials can access, or any folder of
the worker.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

OWN_STORE_VARIABLE = "HPO_CHECKPOINT_STORE"
ALLOWED_STORES_VARIABLE = "HPO_ALLOWED_STORES"
_AMBIGUOUS = "%?#\\@;"
"""Characters that URLs must not contain, because programs parse such URLs differently."""


@dataclass(frozen=True)
class AllowedStores:
    """The URLs of the object stores that studies may use.

    Attributes:
        addresses: The URLs; paths below them may be used too.

    >>> AllowedStores(("s3://hpo/team",)).check("s3://hpo/team/a")
    """

    addresses: tuple[str, ...]

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> AllowedStores:
        """Reads the URLs from `HPO_CHECKPOINT_STORE` and the comma-separated `HPO_ALLOWED_STORES`.

        Raises:
            ValueError: An item of `HPO_ALLOWED_STORES` is not the URL of a store.
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
        """Checks that studies may use a URL: it is a listed URL, or a path below a listed URL.

        Raises:
            ValueError: Studies may not use the URL; the message lists the allowed URLs.
        """
        if address in self.addresses or any(
            _is_below(address, allowed) for allowed in self.addresses
        ):
            return
        listed = ", ".join(self.addresses) or "none"
        raise ValueError(
            f"store is {address!r}, but must be a store that the operator allows, or a path below "
            f"one: {listed} (set by {OWN_STORE_VARIABLE} and {ALLOWED_STORES_VARIABLE})"
        )


def _is_below(address: str, allowed: str) -> bool:
    try:
        parts, allowed_parts = _parse(address), _parse(allowed)
    except ValueError:
        return False
    return parts[: len(allowed_parts)] == allowed_parts


def _parse(address: str) -> tuple[str, ...]:
    """Splits a URL into scheme, bucket and folders.

    Raises:
        ValueError: The URL is neither an S3 nor a file URL, or is ambiguous: different programs
            could parse it differently.
    """
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
