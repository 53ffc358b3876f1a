"""A client of the Docker Engine API: the few requests that a segment's container needs.

It speaks HTTP over the engine's unix socket, or over TCP, and needs no Docker SDK. Every error is
a sentence that names the container or image it is about.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import quote, urlsplit

import httpx

HOST_VARIABLE = "DOCKER_HOST"
DEFAULT_HOST = "unix:///var/run/docker.sock"
NEWEST_VERSION = (1, 44)
"""The newest version of the API that is asked for; an older engine is asked for its own."""
REQUEST_SECONDS = 60.0
PULL_SECONDS = 3600.0
FRAME_HEADER_BYTES = 8
"""Output of a container comes in frames: the stream's number, three zeros, the length."""


class DockerError(RuntimeError):
    """The engine refused a request; the message says which and why."""


class DockerUnreachableError(DockerError):
    """No Docker Engine answers at the address; the message names the address."""


class NoSuchContainerError(DockerError):
    """The container does not exist, or not any more."""


class NoSuchImageError(DockerError):
    """The engine does not have the image."""


@dataclass(frozen=True, kw_only=True)
class Container:
    """A container as the engine lists it.

    Attributes:
        id: The engine's identifier.
        name: A name for people; nothing depends on it.
        labels: Say which segment, trial and study it belongs to.
        created_at: Seconds since the epoch.
        is_running: Whether its process is alive.
    """

    id: str
    name: str
    labels: Mapping[str, str]
    created_at: float
    is_running: bool


@dataclass(frozen=True, kw_only=True)
class ContainerExit:
    """How the process of a container ended.

    Attributes:
        code: Its exit code; 128 and the signal's number after a signal.
        is_out_of_memory: Whether the kernel killed a process of the container because the
            container had used up its memory.
    """

    code: int
    is_out_of_memory: bool


class DockerEngine:
    """A Docker Engine, by its HTTP API. May be used by several threads.

    Args:
        host: Its address: ``unix:///path/to/socket`` or ``tcp://host:port``.

    Raises:
        ValueError: The address is of another kind.
    """

    def __init__(self, host: str = DEFAULT_HOST) -> None:
        parts = urlsplit(host)
        transport: httpx.HTTPTransport | None = None
        if parts.scheme == "unix" and parts.path:
            transport, url = httpx.HTTPTransport(uds=parts.path), "http://docker"
        elif parts.scheme in ("tcp", "http") and parts.netloc:
            url = f"http://{parts.netloc}"
        else:
            raise ValueError(
                f"{HOST_VARIABLE} is {host!r}, but must be unix:///path or tcp://host:port"
            )
        self._host = host
        self._http = httpx.Client(
            transport=transport, base_url=url, timeout=REQUEST_SECONDS, trust_env=False
        )
        self._prefix: str | None = None

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Self:
        """The engine that ``DOCKER_HOST`` names, by default that of this machine.

        Raises:
            ValueError: The address is of another kind, or asks for TLS, which is not supported.
        """
        if environment.get("DOCKER_TLS_VERIFY"):
            raise ValueError(
                "DOCKER_TLS_VERIFY is set, but the docker runner reaches engines without TLS "
                "only: name the engine's unix socket in DOCKER_HOST"
            )
        return cls(environment.get(HOST_VARIABLE) or DEFAULT_HOST)

    def close(self) -> None:
        """Closes the connections; what waits for an answer gets an error."""
        self._http.close()

    def check(self) -> None:
        """Checks that the engine answers.

        Raises:
            DockerUnreachableError: It does not, or this user may not talk to it.
        """
        self._path("")

    def create(self, spec: Mapping[str, object], *, name: str) -> str:
        """Creates a container, not started yet, and returns its id.

        Raises:
            NoSuchImageError: Its image must be pulled first.
            DockerError: The engine refuses the specification, or the name is taken.
        """
        what = f"the container {name}"
        answer = self._request(
            "POST", "/containers/create", what, params={"name": name}, content=spec
        )
        return str(answer["Id"])

    def start(self, container: str) -> None:
        """Starts a container that was created.

        Raises:
            DockerError: The command does not exist in the image, or a folder cannot be mounted.
        """
        self._request("POST", f"/containers/{container}/start", _name(container))

    def wait(self, container: str) -> ContainerExit:
        """Waits until a container has ended, however long that takes.

        Raises:
            NoSuchContainerError: It was removed before.
        """
        path = f"/containers/{container}/wait"
        answer = self._request("POST", path, _name(container), timeout=None)
        return ContainerExit(
            code=int(answer["StatusCode"]), is_out_of_memory=self._ran_out_of_memory(container)
        )

    def follow_output(self, container: str) -> Iterator[bytes]:
        """Yields what a container writes to stdout and stderr, until it has ended.

        Raises:
            NoSuchContainerError: There is no such container.
        """
        query = {"follow": "1", "stdout": "1", "stderr": "1"}
        path = self._path(f"/containers/{container}/logs")
        try:
            with self._http.stream("GET", path, params=query, timeout=None) as answer:
                if answer.is_error:
                    answer.read()
                    raise _refusal(answer, _name(container))
                yield from _payloads(answer.iter_raw())
        except httpx.TransportError as error:
            raise self._unreachable(error) from error

    def send_signal(self, container: str, signal: str) -> None:
        """Sends a signal to a container's process; one that has ended or is gone gets none."""
        path = f"/containers/{container}/kill"
        params = {"signal": signal}
        try:
            self._request("POST", path, _name(container), params=params, or_conflict=True)
        except NoSuchContainerError:
            return

    def remove(self, container: str) -> None:
        """Kills a container where it still runs, and deletes it; it may be gone already."""
        params = {"force": "1", "v": "1"}
        path = f"/containers/{container}"
        try:
            # A conflict says that somebody else is removing it.
            self._request("DELETE", path, _name(container), params=params, or_conflict=True)
        except NoSuchContainerError:
            return

    def list_containers(self, labels: Mapping[str, str | None]) -> list[Container]:
        """The containers that have these labels, running or not.

        Args:
            labels: Values by name; None asks for the label with any value.
        """
        wanted = [name if value is None else f"{name}={value}" for name, value in labels.items()]
        params = {"all": "1", "filters": json.dumps({"label": wanted})}
        found = self._request("GET", "/containers/json", "the list of containers", params=params)
        return [
            Container(
                id=str(item["Id"]),
                name=str(item["Names"][0]).removeprefix("/") if item["Names"] else "",
                labels=dict(item["Labels"]),
                created_at=float(item["Created"]),
                is_running=item["State"] == "running",
            )
            for item in found
        ]

    def image_digest(self, image: str) -> str:
        """The digest that an image's name stands for: its registry's, else the engine's own.

        Raises:
            NoSuchImageError: The engine does not have the image.
        """
        found = self._request("GET", f"/images/{image}/json", f"the image {image}")
        names = [*(found.get("RepoDigests") or ()), found["Id"]]
        return str(names[0]).rpartition("@")[2]

    def pull(self, image: str) -> None:
        """Gets an image from its registry, as an anonymous user.

        Raises:
            DockerError: The registry does not hand it out.
        """
        what = f"the image {image}"
        params = {"fromImage": image if _is_exact(image) else f"{image}:latest"}
        path = self._path("/images/create")
        try:
            with self._http.stream("POST", path, params=params, timeout=PULL_SECONDS) as answer:
                if answer.is_error:
                    answer.read()
                    raise _refusal(answer, what)
                for line in answer.iter_lines():
                    if line and (problem := json.loads(line).get("error")):
                        raise DockerError(f"{what} could not be pulled: {problem}")
        except httpx.TransportError as error:
            raise self._unreachable(error) from error

    def _ran_out_of_memory(self, container: str) -> bool:
        try:
            found = self._request("GET", f"/containers/{container}/json", _name(container))
        except NoSuchContainerError:  # removed while it ran: somebody else has ended it
            return False
        return bool(found["State"]["OOMKilled"])

    def _request(
        self,
        method: str,
        path: str,
        what: str,
        *,
        params: Mapping[str, str] | None = None,
        content: Mapping[str, object] | None = None,
        timeout: float | None = REQUEST_SECONDS,
        or_conflict: bool = False,
    ) -> Any:
        """Sends a request and returns the parsed answer; `or_conflict` accepts a 409 as well."""
        try:
            answer = self._http.request(
                method, self._path(path), params=params, json=content, timeout=timeout
            )
        except httpx.TransportError as error:
            raise self._unreachable(error) from error
        if answer.is_error and not (or_conflict and answer.status_code == httpx.codes.CONFLICT):
            raise _refusal(answer, what)
        return answer.json() if answer.content else None

    def _path(self, path: str) -> str:
        """The path with the version of the API that both sides know."""
        if self._prefix is None:
            try:
                said = self._http.get("/_ping").headers.get("Api-Version", "")
            except httpx.TransportError as error:
                raise self._unreachable(error) from error
            major, _, minor = said.partition(".")
            known = (int(major), int(minor)) if minor.isdecimal() else NEWEST_VERSION
            self._prefix = "/v{}.{}".format(*min(known, NEWEST_VERSION))
        return self._prefix + quote(path)

    def _unreachable(self, error: Exception) -> DockerUnreachableError:
        return DockerUnreachableError(
            f"no Docker Engine answers at {self._host} ({error}): start it, or name its address "
            f"in {HOST_VARIABLE} of the worker"
        )


def _name(container: str) -> str:
    return f"the container {container[:12]}"


def _is_exact(image: str) -> bool:
    """Whether an image's name has a tag or a digest; a registry's port is neither."""
    return "@" in image or ":" in image.rpartition("/")[2]


def _refusal(answer: httpx.Response, what: str) -> DockerError:
    try:
        said = str(answer.json()["message"]).strip()
    except (ValueError, KeyError, TypeError):
        said = answer.text.strip() or answer.reason_phrase
    kind: type[DockerError] = DockerError
    if answer.status_code == httpx.codes.NOT_FOUND:
        kind = NoSuchImageError if "image" in said.lower() else NoSuchContainerError
    return kind(f"Docker refused {what}: {said} (HTTP {answer.status_code})")


def _payloads(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """The content of frames, which begin and end anywhere in the chunks."""
    buffer, left = b"", 0
    for chunk in chunks:
        buffer += chunk
        while buffer:
            if not left:
                if len(buffer) < FRAME_HEADER_BYTES:
                    break
                left = int.from_bytes(buffer[4:FRAME_HEADER_BYTES], "big")
                buffer = buffer[FRAME_HEADER_BYTES:]
            part, buffer = buffer[:left], buffer[left:]
            left -= len(part)
            if part:
                yield part
