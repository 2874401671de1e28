"""The verbs of the workbench as functions on values, for scripts and notebooks.

    import workbench.api as wb

    net = wb.new("net.pt2", "ethos-u55-128", calibration="samples.npz")
    net = wb.set_module_type(net, "torch.nn.modules.conv.Conv2d", "a16w8")
    result = wb.run(net, out="dist").raise_for_errors()
    print(result.evaluated.sqnr_db, result.lowered.vela[0].cycles_total)

Projects are frozen values: an edit returns a new one, and ``save`` writes it. Results are
dataclasses that a notebook shows as tables. Errors are ``WorkbenchError``s with every problem,
its place, a hint and a code. The command line is a thin layer over this package.
"""

from __future__ import annotations

from workbench.analysis.gate import GateResult, Limit
from workbench.api.board import BoardRun, Difference, run_on_board
from workbench.api.comparing import Comparison, FigureChange, compare
from workbench.api.jobs import JobResult, run_job
from workbench.api.projects import (
    CheckResult,
    OpenProject,
    check,
    new,
    open,  # noqa: A004 - as in PIL.Image.open and gzip.open
    plan,
    require_valid,
    rules,
    save,
    set_global,
    set_io,
    set_module_name,
    set_module_type,
    set_target,
)
from workbench.api.runs import (
    RunResult,
    StageReport,
    StudyRun,
    record_run,
    run,
    study,
)
from workbench.api.settings import (
    Setting,
    Settings,
    set_options,
    set_preprocess,
    set_settings,
    settings,
)
from workbench.deploy.simulators.discovery import BoardLink
from workbench.errors import Cancelled, ErrorInfo, TrustRequiredError, WorkbenchError
from workbench.history.outcomes import Outcome

# The version of every JSON document that the command line prints. Keys may be added within a
# version, never renamed or removed.
JSON_VERSION = 1

__all__ = [
    "JSON_VERSION",
    "BoardLink",
    "BoardRun",
    "Cancelled",
    "CheckResult",
    "Comparison",
    "Difference",
    "ErrorInfo",
    "FigureChange",
    "GateResult",
    "JobResult",
    "Limit",
    "OpenProject",
    "Outcome",
    "RunResult",
    "Setting",
    "Settings",
    "StageReport",
    "StudyRun",
    "TrustRequiredError",
    "WorkbenchError",
    "check",
    "compare",
    "new",
    "open",
    "plan",
    "record_run",
    "require_valid",
    "rules",
    "run",
    "run_job",
    "run_on_board",
    "save",
    "set_global",
    "set_io",
    "set_module_name",
    "set_module_type",
    "set_options",
    "set_preprocess",
    "set_settings",
    "set_target",
    "settings",
    "study",
]
