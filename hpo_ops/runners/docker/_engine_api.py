"""A client of the Docker Engine API, with the few requests that the runner `docker` needs.

It uses HTTP over the engine's unix socket or over TCP, without the Docker SDK. Each error message
names the container or image concerned.
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
"""The API version that requests use; an older engine gets requests of its own version."""
REQUEST_SECONDS = 60.0
PULL_SECONDS = 3600.0
FRAME_HEADER_BYTES = 8
"""Size of the header before each part of a container's output.

The header consists of the number of the stream, three zero bytes and the length of the part.
"""


class DockerError(RuntimeError):
    """Raised if the engine refuses a request; the message names the request and the reason."""


class DockerUnreachableError(DockerError):
    """Raised if no Docker Engine answers at the configured address, which the message names."""


class NoSuchContainerError(DockerError):
    """Raised if a container does not exist (any more)."""


class NoSuchImageError(DockerError):
    """Raised if the image is not on the engine's machine."""


@dataclass(frozen=True, kw_only=True)
class Container:
    """A container as the engine lists it.

    Attributes:
        id: The engine's identifier.
        name: The container's name, for people only.
        labels: The container's labels, which name its study, trial and segment.
        created_at: Time of creation, in seconds since the epoch.
        is_running: Whether the container's process is running.
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
        code: The exit code; 128 plus the signal's number if a signal ended the process.
        is_out_of_memory: Whether the kernel killed a process of the container because the
            container had used up its memory.
    """

    code: int
    is_out_of_memory: bool


class DockerEngine:
    """A client of one Docker Engine's HTTP API, which several threads may use.

    Args:
        host: The engine's address: ``unix:///path/to/socket`` or ``tcp://host:port``.

    Raises:
        ValueError: The address has another form.
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
        """Creates a client of the engine that ``DOCKER_HOST`` names, by default the local engine.

        Raises:
            ValueError: The address is neither a unix socket nor TCP, or ``DOCKER_TLS_VERIFY``
                requires TLS, which is not supported.
        """
        if environment.get("DOCKER_TLS_VERIFY"):
            raise ValueError(
                "DOCKER_TLS_VERIFY is set, but the docker runner reaches engines without TLS "
                "only: name the engine's unix socket in DOCKER_HOST"
            )
        return cls(environment.get(HOST_VARIABLE) or DEFAULT_HOST)

    def close(self) -> None:
        """Closes the connections to the engine; requests that wait for an answer fail."""
        self._http.close()

    def check(self) -> None:
        """Checks that the engine answers.

        Raises:
            DockerUnreachableError: The engine does not answer, or this user may not connect to it.
        """
        self._path("")

    def create(self, spec: Mapping[str, object], *, name: str) -> str:
        """Creates a container without starting it, and returns the container's id.

        Raises:
            NoSuchImageError: The container's image must be pulled first.
            DockerError: The engine refuses the specification, or the name is already in use.
        """
        what = f"the container {name}"
        answer = self._request(
            "POST", "/containers/create", what, params={"name": name}, content=spec
        )
        return str(answer["Id"])

    def start(self, container: str) -> None:
        """Starts an existing container.

        Raises:
            DockerError: The command does not exist in the image, or a folder cannot be mounted.
        """
        self._request("POST", f"/containers/{container}/start", _name(container))

    def wait(self, container: str) -> ContainerExit:
        """Waits without a time limit until a container has ended, and returns how it ended.

        Raises:
            NoSuchContainerError: The container was removed before it was waited for.
        """
        path = f"/containers/{container}/wait"
        answer = self._request("POST", path, _name(container), timeout=None)
        return ContainerExit(
            code=int(answer["StatusCode"]), is_out_of_memory=self._ran_out_of_memory(container)
        )

    def follow_output(self, container: str) -> Iterator[bytes]:
        """Yields the output of a container (stdout and stderr) until the container has ended.

        Raises:
            NoSuchContainerError: The container does not exist.
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
        """Sends a signal to a container's process; does nothing if the container has ended."""
        path = f"/containers/{container}/kill"
        params = {"signal": signal}
        try:
            self._request("POST", path, _name(container), params=params, or_conflict=True)
        except NoSuchContainerError:
            return

    def remove(self, container: str) -> None:
        """Deletes a container, even if it still runs; does nothing if it does not exist."""
        params = {"force": "1", "v": "1"}
        path = f"/containers/{container}"
        try:
            # A conflict means that the container is already being removed.
            self._request("DELETE", path, _name(container), params=params, or_conflict=True)
        except NoSuchContainerError:
            return

    def list_containers(self, labels: Mapping[str, str | None]) -> list[Container]:
        """Returns the containers that have all the given labels, whether they run or not.

        Args:
            labels: The value of each label by its name; None accepts any value.
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
        """Returns the digest of an image: the registry's digest, or else the engine's image id.

        Raises:
            NoSuchImageError: The engine does not have the image.
        """
        found = self._request("GET", f"/images/{image}/json", f"the image {image}")
        names = [*(found.get("RepoDigests") or ()), found["Id"]]
        return str(names[0]).rpartition("@")[2]

    def pull(self, image: str) -> None:
        """Pulls an image from its registry without credentials.

        Raises:
            DockerError: The image could not be pulled.
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
        except NoSuchContainerError:  # the container was removed by another process
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
        """Sends a request to the engine; returns the parsed answer, None if the answer is empty.

        Args:
            method: The HTTP method.
            path: The path without the version of the API.
            what: The container or image concerned, for error messages.
            params: The query parameters.
            content: The body, sent as JSON.
            timeout: Seconds to wait for the answer; None for no limit.
            or_conflict: Whether an answer with the status 409 (conflict) raises no error.

        Raises:
            DockerError: The engine refuses the request or does not answer.
        """
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
        """Returns a request's path with the newest API version that client and engine support."""
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
    """Checks whether an image's name has a tag or a digest; the port of a registry is no tag."""
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
    """Yields a container's output: the engine's stream of frames without the frame headers."""
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
