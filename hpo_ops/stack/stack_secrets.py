"""Creates the random secrets of a stack once, and stores them in a file of mode 0600."""

from __future__ import annotations

import base64
import json
import secrets
from dataclasses import asdict, dataclass, field
from pathlib import Path

from hpo_ops.client.token_signing import KeyRing
from hpo_ops.stack.stack_files import write_private


def _token() -> str:
    return secrets.token_urlsafe(32)


def _fernet_key() -> str:
    return base64.urlsafe_b64encode(secrets.token_bytes(32)).decode()


@dataclass(frozen=True)
class Secrets:
    """The passwords, keys and id of a stack; by default, each is a new random value."""

    stack_id: str = field(default_factory=lambda: secrets.token_hex(16))
    admin_password: str = field(default_factory=lambda: secrets.token_urlsafe(12))
    jwt_secret: str = field(default_factory=_token)
    api_secret_key: str = field(default_factory=_token)
    fernet_key: str = field(default_factory=_fernet_key)
    gateway_keys: str = field(default_factory=lambda: KeyRing.make().to_text())
    postgres_password: str = field(default_factory=lambda: secrets.token_hex(24))
    airflow_database_password: str = field(default_factory=lambda: secrets.token_hex(24))
    ledger_database_password: str = field(default_factory=lambda: secrets.token_hex(24))
    s3_access_key: str = field(default_factory=lambda: secrets.token_hex(10))
    s3_secret_key: str = field(default_factory=lambda: secrets.token_hex(24))

    def __repr__(self) -> str:
        return "Secrets(…)"

    @classmethod
    def load_or_make(cls, path: Path) -> Secrets:
        """Reads the secrets of a stack from a file.

        If the file does not exist, new secrets are created and written to it.
        """
        if path.is_file():
            content = json.loads(path.read_text(encoding="utf-8"))
            if secret := content.pop("gateway_secret", None):  # of a stack before key rings
                content.setdefault("gateway_keys", f"first:{secret}")
            return cls(**content)
        made = cls()
        made.write(path)
        return made

    @property
    def keys(self) -> KeyRing:
        """The keys with which the gateway signs tokens."""
        return KeyRing.parse(self.gateway_keys)

    def write(self, path: Path) -> None:
        """Writes the secrets to a file that only its owner can read."""
        write_private(path, json.dumps(asdict(self), indent=2) + "\n")
