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

from workbench.analysis.accuracy import AccuracyResult
from workbench.analysis.gate import GateResult, Limit
from workbench.api.board import BoardRun, Difference, run_on_board
from workbench.api.comparing import Comparison, FigureChange, compare
from workbench.api.deliverables import Inspection, Script, inspect, overlays, report, script
from workbench.api.history import RunDifference, RunHistory, compare_runs, history, record_run, restore_run
from workbench.api.jobs import JobFailedError, JobResult, run_job
from workbench.api.projects import (
    CheckResult,
    add_plugin,
    allowed_code,
    channel_layers,
    check,
    clear_compression,
    compress,
    new,
    open,  # noqa: A004 - as in PIL.Image.open and gzip.open
    plan,
    remove_plugin,
    require_valid,
    save,
    set_board,
    set_improver,
    set_improving,
    set_target,
    update,
    use_improver_preset,
)
from workbench.api.ranges import (
    Ranges,
    choose_method,
    compare_methods,
    exclude_samples,
    include_samples,
    pin_range,
    ranges,
    reset_method,
    unpin_ranges,
)
from workbench.api.rules import (
    ResolvedRules,
    add_rule,
    enable_rule,
    export_pass_args,
    import_pass_args,
    move_rule,
    remove_rule,
    resolve_rules,
    rules,
    set_global,
    set_io,
    set_module_name,
    set_module_type,
)
from workbench.api.runs import RunResult, StageReport, run
from workbench.api.settings import Setting, Settings, set_options, set_preprocess, set_settings, settings
from workbench.api.silicon import checked_row, measured_row, remember_program, remember_run
from workbench.api.studies import (
    JobOptions,
    apply_candidate,
    blame,
    compare_tflite,
    placement,
    search,
    sensitivity,
    sram_budgets,
    study,
    sweep,
    train,
    use_trained_weights,
)
from workbench.api.suggestions import apply_suggestions, suggestions
from workbench.api.toolchain_comparison import ToolchainComparison, ToolchainFigure, compare_toolchains
from workbench.api.toolchains import (
    ToolchainCheck,
    ToolchainState,
    add_toolchain,
    check_toolchain,
    create_toolchain,
    list_toolchains,
    remove_toolchain,
    toolchain_state,
)
from workbench.deploy.simulators.discovery import BoardLink
from workbench.errors import Cancelled, ErrorInfo, TrustRequiredError, WorkbenchError
from workbench.history.outcomes import Outcome
from workbench.project.opened import OpenProject
from workbench.suggestions import Suggestion

# The version of every JSON document that the command line prints. Keys may be added within a
# version, never renamed or removed.
JSON_VERSION = 1

__all__ = [
    "JSON_VERSION",
    "AccuracyResult",
    "BoardLink",
    "BoardRun",
    "Cancelled",
    "CheckResult",
    "Comparison",
    "Difference",
    "ErrorInfo",
    "FigureChange",
    "GateResult",
    "Inspection",
    "JobFailedError",
    "JobOptions",
    "JobResult",
    "Limit",
    "OpenProject",
    "Outcome",
    "Ranges",
    "ResolvedRules",
    "RunDifference",
    "RunHistory",
    "RunResult",
    "Script",
    "Setting",
    "Settings",
    "StageReport",
    "Suggestion",
    "ToolchainCheck",
    "ToolchainComparison",
    "ToolchainFigure",
    "ToolchainState",
    "TrustRequiredError",
    "WorkbenchError",
    "add_plugin",
    "add_rule",
    "add_toolchain",
    "allowed_code",
    "apply_candidate",
    "apply_suggestions",
    "blame",
    "channel_layers",
    "check",
    "check_toolchain",
    "checked_row",
    "choose_method",
    "clear_compression",
    "compare",
    "compare_methods",
    "compare_runs",
    "compare_tflite",
    "compare_toolchains",
    "compress",
    "create_toolchain",
    "enable_rule",
    "exclude_samples",
    "export_pass_args",
    "history",
    "import_pass_args",
    "include_samples",
    "inspect",
    "list_toolchains",
    "measured_row",
    "move_rule",
    "new",
    "open",
    "overlays",
    "pin_range",
    "placement",
    "plan",
    "ranges",
    "record_run",
    "remember_program",
    "remember_run",
    "remove_plugin",
    "remove_rule",
    "remove_toolchain",
    "report",
    "require_valid",
    "reset_method",
    "resolve_rules",
    "restore_run",
    "rules",
    "run",
    "run_job",
    "run_on_board",
    "save",
    "script",
    "search",
    "sensitivity",
    "set_board",
    "set_global",
    "set_improver",
    "set_improving",
    "set_io",
    "set_module_name",
    "set_module_type",
    "set_options",
    "set_preprocess",
    "set_settings",
    "set_target",
    "settings",
    "sram_budgets",
    "study",
    "suggestions",
    "sweep",
    "toolchain_state",
    "train",
    "unpin_ranges",
    "update",
    "use_improver_preset",
    "use_trained_weights",
]
