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
    Comparison,
    RunResult,
    StageReport,
    StudyRun,
    compare,
    record_run,
    run,
    study,
)
from workbench.errors import Cancelled, ErrorInfo, TrustRequiredError, WorkbenchError

__all__ = [
    "Cancelled",
    "CheckResult",
    "Comparison",
    "ErrorInfo",
    "GateResult",
    "JobResult",
    "Limit",
    "OpenProject",
    "RunResult",
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
    "save",
    "set_global",
    "set_io",
    "set_module_name",
    "set_module_type",
    "set_target",
    "study",
]
