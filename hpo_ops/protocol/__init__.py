"""The protocol between training code, its agent and the gateway: messages, files, version.

An agent is the process beside a training that forwards its reports and checkpoints to the gateway
(the platform's HTTP API). Training code in any language communicates with its agent through files
in a directory (``$HPO_DIR``, in a pod ``/hpo``)::

    assignment.json          what to train, written before the training starts
    reports.jsonl            one line per report, appended by the training code
    control.json             the requested action: continue, pause, stop or resize
    checkpoints/<step>/...   files, then the marker file, written last
    software.json            optional: package versions, written by the SDK
    result.json              optional: how the training ended

Agents send the same messages to the gateway over HTTP. This package uses the standard library
only, because the SDK that training code imports depends on it.

Mixed versions: a reader ignores unknown fields, each new field has a default value, and an unknown
`Cause` is read as ``unknown``. So an agent or an SDK of an older release works with a newer
gateway, and vice versa, as long as `VERSION` is the same. `VERSION` changes only when an old
reader would misunderstand a message; the previous version is still accepted (decision 23).
"""

from hpo_ops.protocol._assignment import Assignment, ParamValue
from hpo_ops.protocol._checkpoint_messages import Checkpoint, SavedCheckpoint
from hpo_ops.protocol._control import Action, Control
from hpo_ops.protocol._forecast_messages import CurveForecast, ForecastOrder
from hpo_ops.protocol._message import Message, ProtocolError
from hpo_ops.protocol._provenance import Provenance
from hpo_ops.protocol._report import Metrics, Report
from hpo_ops.protocol._safe_files import (
    Folder,
    UnsafeFileError,
    open_log,
    open_regular,
    read_regular,
    write_atomically,
)
from hpo_ops.protocol._segment_result import Cause, Outcome, SegmentResult
from hpo_ops.protocol._version import VERSION, VERSION_HEADER, check_version
from hpo_ops.protocol._workspace import (
    AGENT_DIRECTORY_VARIABLE,
    DIRECTORY_VARIABLE,
    MARKER,
    SIDECAR_VARIABLE,
    ReportReader,
    Workspace,
    read_control,
)
from hpo_ops.protocol.field_checks import MAX_STEP

__all__ = [
    "AGENT_DIRECTORY_VARIABLE",
    "DIRECTORY_VARIABLE",
    "MARKER",
    "MAX_STEP",
    "SIDECAR_VARIABLE",
    "VERSION",
    "VERSION_HEADER",
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
    "check_version",
    "open_log",
    "open_regular",
    "read_control",
    "read_regular",
    "write_atomically",
]
