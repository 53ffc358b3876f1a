"""The wire between a training container and the platform: names, shapes, version.

Training code of any language takes part through a directory (``$HPO_DIR``, in a pod ``/hpo``)::

    assignment.json          what to run, written before the training starts
    reports.jsonl            one line a report, appended by the training code
    control.json             what the platform wants: continue, pause or stop
    checkpoints/<step>/...   files, then the marker file, written last
    software.json            optional: what the training runs with, written by the SDK
    result.json              how it ended

The shapes here are those files; the gateway speaks the same ones over HTTP. Standard library
only: the SDK that training code imports knows nothing else.
"""

from hpo_ops.protocol.message import Message, ProtocolError
from hpo_ops.protocol.safe_files import (
    Folder,
    UnsafeFileError,
    open_log,
    open_regular,
    read_regular,
    write_aside,
)
from hpo_ops.protocol.wire_messages import (
    MAX_REASON,
    MAX_STEP,
    OUT_OF_MEMORY,
    VERSION,
    Action,
    Assignment,
    Cause,
    Checkpoint,
    Control,
    CurveForecast,
    ForecastOrder,
    Metrics,
    Outcome,
    ParamValue,
    Provenance,
    Report,
    SavedCheckpoint,
    SegmentResult,
)
from hpo_ops.protocol.workspace import (
    AGENT_DIRECTORY_VARIABLE,
    DIRECTORY_VARIABLE,
    MARKER,
    SIDECAR_VARIABLE,
    ReportReader,
    Workspace,
    read_control,
)

__all__ = [
    "AGENT_DIRECTORY_VARIABLE",
    "DIRECTORY_VARIABLE",
    "MARKER",
    "MAX_REASON",
    "MAX_STEP",
    "OUT_OF_MEMORY",
    "SIDECAR_VARIABLE",
    "VERSION",
    "Action",
    "Assignment",
    "Cause",
    "Checkpoint",
    "Control",
    "CurveForecast",
    "Folder",
    "ForecastOrder",
    "Message",
    "Metrics",
    "Outcome",
    "ParamValue",
    "ProtocolError",
    "Provenance",
    "Report",
    "ReportReader",
    "SavedCheckpoint",
    "SegmentResult",
    "UnsafeFileError",
    "Workspace",
    "open_log",
    "open_regular",
    "read_control",
    "read_regular",
    "write_aside",
]
