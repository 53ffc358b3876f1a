"""Uploads, restores, publishes and deletes the checkpoints of one study in an object store."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import obstore
from obstore.exceptions import PermissionDeniedError

from hpo_ops.checkpoints._checkpoint_folder import BadCheckpointError, files_of, open_checkpoint
from hpo_ops.checkpoints._file_transfer import TooLargeError, copy, in_parallel, receive, send
from hpo_ops.checkpoints._object_stores import Store
from hpo_ops.checkpoints.manifest import (
    MANIFEST,
    Manifest,
    ManifestFile,
    check_path,
    digest_of,
)
from hpo_ops.protocol import MARKER, Checkpoint, Folder, SavedCheckpoint, UnsafeFileError

logger = logging.getLogger(__name__)

MAX_MANIFEST_BYTES = 64 << 20


class CheckpointRef(NamedTuple):
    """Identifies one checkpoint of a study by its trial and step."""

    trial: int
    step: int


class CorruptCheckpointError(ValueError):
    """A checkpoint in the store is unusable.

    Its manifest is missing or invalid, its files do not match the manifest, or the manifest does
    not have the digest that the ledger has recorded.
    """


class Checkpoints:
    """The checkpoints of one study in an object store.

    Args:
        store: The object store, or a function that opens the store when it is first used.
        study: The study's key, which is the path of the study's folder in the store.
        uri: The store's URL; the URI of each checkpoint starts with it.
    """

    def __init__(self, store: Store | Callable[[], Store], study: str, *, uri: str = "") -> None:
        check_path(study)
        self._given = store
        self._study = study
        self._uri = uri.rstrip("/")

    @cached_property
    def _store(self) -> Store:
        return self._given() if callable(self._given) else self._given

    def upload(self, trial: int, step: int, folder: Path | Folder) -> Checkpoint:
        """Uploads the files of a local checkpoint in parallel, and then its manifest.

        Args:
            trial: The number of the trial.
            step: The checkpoint's step.
            folder: The checkpoint's local folder. Callers pass an open `Folder` if the training
                could replace the folder at this path meanwhile.

        Returns:
            The description of the checkpoint for the gateway, with the digest of the manifest.

        Raises:
            BadCheckpointError: The folder is empty, or contains a file that must not be uploaded.
        """
        if isinstance(folder, Path):
            with open_checkpoint(folder) as opened:
                return self.upload(trial, step, opened)
        base = self._base(trial, step)
        paths = files_of(folder)
        self._delete(f"{base}/{MANIFEST}")
        try:
            files = in_parallel(
                lambda path: send(self._store, folder, f"{base}/{path}", path), paths
            )
        except UnsafeFileError as error:
            raise BadCheckpointError(f"checkpoint {step}: {error}") from error
        manifest = Manifest(step, tuple(files))
        text = manifest.to_json()
        obstore.put(self._store, f"{base}/{MANIFEST}", text)
        return Checkpoint(
            step=step,
            uri=f"{self._uri}/{base}",
            files=len(files),
            bytes=manifest.total_bytes,
            digest=digest_of(text),
        )

    def manifest(self, trial: int, step: int) -> Manifest | None:
        """Reads the manifest of a checkpoint; returns None if the checkpoint is not complete.

        Raises:
            CorruptCheckpointError: The manifest is invalid.
        """
        return self._read_manifest(self._base(trial, step))

    def restore(
        self,
        trial: int,
        target: Path,
        *,
        at_most: int | None = None,
        first_folder: str | None = None,
        saved: Sequence[SavedCheckpoint] | None = None,
    ) -> int | None:
        """Downloads the newest complete checkpoint of a trial into ``target/<step>``.

        The marker file, which shows that the local checkpoint is complete, is written last. A
        corrupt checkpoint is skipped, and the next older checkpoint is tried. A store that does
        not answer is an error, because training from the start would lose work.

        Args:
            trial: The number of the trial.
            target: The local folder that contains all checkpoints of the trial.
            at_most: The last step whose checkpoint may be restored; None for no limit. Ignored if
                `saved` is given.
            first_folder: A folder in the store with checkpoints of another trial, which are tried
                before the trial's own checkpoints; None for no such folder. Ignored if `saved` is
                given.
            saved: The checkpoints that the ledger has recorded, newest first; no other checkpoint
                is restored. None, if the gateway does not send the recorded checkpoints, allows
                any complete checkpoint in the store.

        Returns:
            The step of the restored checkpoint, or None if no checkpoint could be restored.
        """
        for checkpoint in self._found(trial, at_most, first_folder) if saved is None else saved:
            check_path(checkpoint.path)
            try:
                if self._restore(checkpoint, target):
                    return checkpoint.step
            except CorruptCheckpointError as error:
                logger.warning("skipped the corrupt checkpoint %s: %s", checkpoint.path, error)
        return None

    def complete(self, trial: int | None = None) -> list[CheckpointRef]:
        """Returns the complete checkpoints of a trial, or of the study if `trial` is None."""
        prefix = f"{self._study}/trials" if trial is None else self._trial(trial)
        return sorted(
            ref for ref, path in self._objects(prefix) if path.endswith(f"/{ref.step}/{MANIFEST}")
        )

    def copy_to_best(
        self, trial: int, step: int, *, uri: str | None = None, digest: str | None = None
    ) -> str:
        """Copies a checkpoint to the study's ``best/`` folder and returns the URI of that folder.

        The operation is idempotent. While an older best checkpoint is replaced, the folder has no
        manifest, so that no reader gets a mixture of the two checkpoints.

        Args:
            trial: The number of the trial.
            step: The checkpoint's step.
            uri: The checkpoint's URI, which may belong to another trial in the same store; None
                for the trial's own checkpoint at that step.
            digest: The digest of the checkpoint's manifest in the ledger; None to skip this check.

        Raises:
            CorruptCheckpointError: The checkpoint is not complete, or its manifest has another
                digest.
        """
        base, best = self._base(trial, step), f"{self._study}/best"
        if uri is not None and uri.startswith(f"{self._uri}/") and uri != f"{self._uri}/{best}":
            base = uri.removeprefix(f"{self._uri}/")
            check_path(base)
        manifest = self._read_manifest(base, digest=digest)
        if manifest is None:
            raise CorruptCheckpointError(
                f"trial {trial} has no complete checkpoint at step {step} in the store"
            )
        if not self._is_same(best, manifest):
            stale = set(self._keys(best)) - {f"{best}/{file.path}" for file in manifest.files}
            self._delete(f"{best}/{MANIFEST}")
            in_parallel(
                lambda file: copy(
                    self._store, f"{base}/{file.path}", f"{best}/{file.path}", file.bytes
                ),
                manifest.files,
            )
            for key in stale - {f"{best}/{MANIFEST}"}:
                self._delete(key)
            obstore.put(self._store, f"{best}/{MANIFEST}", manifest.to_json())
        return f"{self._uri}/{best}"

    def best(self) -> Manifest | None:
        """Reads the manifest of the best checkpoint; returns None if ``best/`` has no manifest.

        Raises:
            CorruptCheckpointError: The manifest is invalid.
        """
        return self._read_manifest(f"{self._study}/best")

    def write_result(self, text: str) -> None:
        """Writes the given text to ``result.json`` in the study's folder in the store."""
        obstore.put(self._store, f"{self._study}/result.json", text.encode())

    def collect(self, keep: Collection[CheckpointRef | tuple[int, int]]) -> list[CheckpointRef]:
        """Deletes all checkpoints of the study, complete or not, except the given checkpoints.

        The manifest of a checkpoint is deleted before its other files, so that a partly deleted
        checkpoint is never restored. The ``best/`` folder is not affected.

        Args:
            keep: The checkpoints that are not deleted, as pairs of trial and step.

        Returns:
            The deleted checkpoints, sorted.
        """
        doomed: dict[CheckpointRef, list[str]] = {}
        for ref, path in self._objects(f"{self._study}/trials"):
            if ref not in keep:
                doomed.setdefault(ref, []).append(path)
        for ref, paths in doomed.items():
            manifest = f"{self._base(*ref)}/{MANIFEST}"
            for path in sorted(paths, key=lambda path: path != manifest):
                self._delete(path)
        return sorted(doomed)

    def _found(
        self, trial: int, at_most: int | None, first_folder: str | None
    ) -> Iterator[SavedCheckpoint]:
        """Yields the checkpoints of a trial that are in the store, newest first.

        The checkpoints in `first_folder`, if given, come before the trial's own checkpoints. The
        checkpoints need not be recorded in the ledger.
        """
        if first_folder is not None:
            check_path(first_folder)
        for folder in filter(None, (first_folder, self._trial(trial))):
            for step in self._steps(folder, at_most):
                yield SavedCheckpoint(step=step, path=f"{folder}/{step}")

    def _restore(self, saved: SavedCheckpoint, target: Path) -> bool:
        base, step = saved.path, saved.step
        manifest = self._read_manifest(base, digest=saved.digest)
        if manifest is None:
            return False
        aside = target / f".restore.{step}"
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir(parents=True)
        try:
            in_parallel(lambda file: self._receive(base, file, aside), manifest.files)
            (aside / MARKER).touch()
            shutil.rmtree(target / str(step), ignore_errors=True)
            aside.rename(target / str(step))
        finally:
            shutil.rmtree(aside, ignore_errors=True)
        return True

    def _receive(self, base: str, file: ManifestFile, folder: Path) -> None:
        try:
            found = receive(
                self._store, f"{base}/{file.path}", folder / file.path, at_most=file.bytes
            )
        except (FileNotFoundError, FileExistsError, NotADirectoryError) as error:
            raise CorruptCheckpointError(f"{file.path} cannot be downloaded ({error})") from error
        except TooLargeError as error:
            raise CorruptCheckpointError(str(error)) from error
        if found != (file.bytes, file.sha256):
            raise CorruptCheckpointError(
                f"{file.path} has {found[0]} bytes and hash {found[1][:12]}, "
                f"but must have {file.bytes} bytes and hash {file.sha256[:12]}"
            )

    def _read_manifest(self, base: str, *, digest: str | None = None) -> Manifest | None:
        try:
            answer = obstore.get(self._store, f"{base}/{MANIFEST}")
        except FileNotFoundError:
            return None
        except PermissionDeniedError:
            # AWS denies access to a missing object if the key may list only a part of the bucket.
            if f"{base}/{MANIFEST}" in self._keys(base):
                raise
            return None
        if answer.meta["size"] > MAX_MANIFEST_BYTES:
            raise CorruptCheckpointError(f"{MANIFEST} has {answer.meta['size']} bytes")
        text = bytes(answer.bytes())
        if digest is not None and digest_of(text) != digest:
            raise CorruptCheckpointError(
                f"{MANIFEST} has the hash {digest_of(text)[:12]}, "
                f"but the ledger says {digest[:12]}: it was changed in the store"
            )
        try:
            return Manifest.from_json(text)
        except ValueError as error:
            raise CorruptCheckpointError(str(error)) from error

    def _is_same(self, base: str, manifest: Manifest) -> bool:
        try:
            return self._read_manifest(base) == manifest
        except CorruptCheckpointError:
            return False

    def _steps(self, folder: str, at_most: int | None) -> list[int]:
        answer = obstore.list_with_delimiter(self._store, folder)
        names = [prefix.rsplit("/", 1)[-1] for prefix in answer["common_prefixes"]]
        steps = (int(name) for name in names if name.isdecimal())
        return sorted((step for step in steps if at_most is None or step <= at_most), reverse=True)

    def _objects(self, prefix: str) -> Iterator[tuple[CheckpointRef, str]]:
        start = f"{self._study}/trials/"
        for key in self._keys(prefix):
            trial, _, rest = key.removeprefix(start).partition("/")
            step = rest.partition("/")[0]
            if trial.isdecimal() and step.isdecimal():
                yield CheckpointRef(int(trial), int(step)), key

    def _keys(self, prefix: str) -> Iterator[str]:
        for page in obstore.list(self._store, prefix):
            for item in page:
                yield item["path"]

    def _delete(self, key: str) -> None:
        try:
            obstore.delete(self._store, key)
        except FileNotFoundError:
            logger.debug("%s was already deleted", key)

    def _trial(self, trial: int) -> str:
        return f"{self._study}/trials/{trial}"

    def _base(self, trial: int, step: int) -> str:
        return f"{self._trial(trial)}/{step}"
