"""A registry of container images in this process, which has one small image."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

NAME, TAG = "tiny", "1"
MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"


def digest_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _layer() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as packed:
        entry = tarfile.TarInfo("hello")
        packed.addfile(entry, io.BytesIO())
    return buffer.getvalue()


def _image() -> tuple[bytes, dict[str, bytes]]:
    """The manifest of an image, and its blobs by digest."""
    layer = _layer()
    settings = {
        "architecture": "amd64",
        "os": "linux",
        "config": {},
        "rootfs": {"type": "layers", "diff_ids": [digest_of(layer)]},
    }
    config = json.dumps(settings).encode()

    def described(kind: str, content: bytes) -> dict[str, object]:
        return {"mediaType": kind, "size": len(content), "digest": digest_of(content)}

    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": described("application/vnd.docker.container.image.v1+json", config),
        "layers": [described("application/vnd.docker.image.rootfs.diff.tar", layer)],
    }
    return json.dumps(manifest).encode(), {digest_of(item): item for item in (layer, config)}


@contextmanager
def registry() -> Iterator[tuple[str, str]]:
    """Serves the image; yields its name with its tag, and its digest."""
    manifest, blobs = _image()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            last = self.path.rpartition("/")[2]
            if self.path == "/v2/":
                self._answer(b"{}", "application/json")
            elif last in (TAG, digest_of(manifest)):
                self._answer(manifest, MANIFEST)
            elif last in blobs:
                self._answer(blobs[last], "application/octet-stream")
            else:
                self.send_error(404)

        do_HEAD = do_GET  # noqa: N815, the name that the base class looks for

        def _answer(self, content: bytes, kind: str) -> None:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Docker-Content-Digest", digest_of(content))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"127.0.0.1:{server.server_port}/{NAME}:{TAG}", digest_of(manifest)
    finally:
        server.shutdown()
        server.server_close()
