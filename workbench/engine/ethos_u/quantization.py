"""The Ethos-U quantizer with the project's rules, and its report."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import torch
from executorch.backends.arm.quantizer import EthosUQuantizer
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

from workbench.engine.ethos_u.applied_corrections import correction_functions, rewrite_functions
from workbench.engine.ethos_u.compile_spec import compile_spec
from workbench.engine.ethos_u.corrections.annotation_patches import weights_replaced
from workbench.engine.ethos_u.corrections.batch_norm_folding import made_foldable
from workbench.engine.ethos_u.corrections.complex_values import NotWrittenError
from workbench.engine.ethos_u.corrections.decomposition_tracking import MadeOf, OfClass
from workbench.engine.ethos_u.corrections.quantizer import CorrectingQuantizer
from workbench.engine.ethos_u.refusals import complex_refused, modules_by_operator, preparing_failed
from workbench.engine.ethos_u.trained_norms import prepare_norms
from workbench.engine.fx import programs
from workbench.engine.quantization.executorch_configs import (
    arm_config,
    factory_config,
    with_fake_quantization,
)
from workbench.engine.quantization.plugins import Plugins
from workbench.engine.toolchain_patches.gate import require
from workbench.engine.training.model import QatModel
from workbench.errors import Place, failure
from workbench.project.configs import PluginConfig, QuantConfig
from workbench.project.model import name_of
from workbench.results import AppliedCorrection, AppliedRewrite, NodeAnnotation
from workbench.targets.ethos_u.rewrites import REWRITES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from workbench.project.model import Project, RuleKind
    from workbench.project.opened import OpenProject


_REPORT = "quantizer_report"


@dataclass(frozen=True)
class _Report:
    """The quantizer's report on one node: quantizer and config, or why there is none."""

    by: str = ""
    label: str = ""
    reason: str = ""


class ReportingQuantizer(CorrectingQuantizer):
    """Stores its report at the nodes, since ExecuTorch keeps only that of the last graph."""

    states: tuple[AppliedCorrection, ...] = ()
    modules: Mapping[str, str] = MappingProxyType({})

    @property
    def applied_corrections(self) -> tuple[AppliedCorrection, ...]:
        """What became of the corrections before calibration."""
        return tuple(row.model_copy(update={"places": self.corrected.get(row.id, ())}) for row in self.states)

    @property
    def rewritten(self) -> tuple[AppliedRewrite, ...]:
        """What became of the rewrites of the float graph."""
        return tuple(
            AppliedRewrite(
                id=row.id,
                state="on" if row.id in self.rewrites else "off",
                places=(places := self.corrected.get(row.id, ())),
                modules=tuple(dict.fromkeys(filter(None, map(self.modules.get, places)))),
                as_written=self.as_written.get(row.id, ()),
            )
            for row in REWRITES
        )

    def transform_for_annotation(self, model: torch.fx.GraphModule) -> torch.fx.GraphModule:
        """Take operators apart as ever; the weights of the float program stay as they are."""
        with weights_replaced():
            module: torch.fx.GraphModule = super().transform_for_annotation(model)
        return module

    def annotate(self, model: torch.fx.GraphModule) -> torch.fx.GraphModule:
        """Annotate a graph or the body of a branch, and store the report at its nodes."""
        annotated: torch.fx.GraphModule = super().annotate(model)
        accepted, rejected = _reports(self)
        for node in annotated.graph.nodes:
            by, label = accepted.get(node.name, ("", ""))
            node.meta[_REPORT] = _Report(by, label, rejected.get(node.name, ""))
        return annotated


class TrainingQuantizer(ReportingQuantizer):
    """Fake-quantizes what is observed for calibration, with the same ranges."""

    def annotate(self, model: torch.fx.GraphModule) -> torch.fx.GraphModule:
        """Annotate as for calibration, then fake-quantize."""
        annotated = super().annotate(model)
        for node in annotated.graph.nodes:
            if (annotation := node.meta.get("quantization_annotation")) is not None:
                inputs = annotation.input_qspec_map.items()
                annotation.input_qspec_map = {source: with_fake_quantization(spec) for source, spec in inputs}
                annotation.output_qspec = with_fake_quantization(annotation.output_qspec)
        return annotated


def quantizer(opened: OpenProject) -> EthosUQuantizer:
    """Return a quantizer with the project's rules applied in order.

    Raises:
        WorkbenchError: a rule names an operator that torch does not have, a plug-in fails, or the
            installed ExecuTorch lacks what is patched.
    """
    return _quantizer_of(opened, is_qat=False)


def trial_quantizer(opened: OpenProject) -> ReportingQuantizer:
    """Return a quantizer that leaves layers as they are written, for trials that name them.

    Raises:
        WorkbenchError: a rule names an unknown torch operator, or a plug-in fails.
    """
    return _quantizer_of(opened, is_qat=False, is_rewriting=False)


def training_quantizer(opened: OpenProject) -> EthosUQuantizer:
    """Return a quantizer with fake-quantizing observers.

    Raises:
        WorkbenchError: a rule names an unknown torch operator, or a plug-in fails.
    """
    # Training needs the norms behind their convolutions, and trains weights by their names.
    return _quantizer_of(opened, is_qat=True, is_rewriting=False)


def qat_model(floating: torch.fx.GraphModule, opened: OpenProject) -> QatModel:
    """Return the float program with fake quantization by the rules, for training."""
    return QatModel(floating, training_quantizer(opened), prepare_norms)


def _quantizer_of(opened: OpenProject, *, is_qat: bool, is_rewriting: bool = True) -> ReportingQuantizer:
    project = opened.project
    for patch in ("decomposition-tracking", "folded-weights"):
        require(patch)
    quantizer_class = TrainingQuantizer if is_qat else ReportingQuantizer
    quantizer, plugins = quantizer_class(compile_spec(project.target)), Plugins(opened.folder)
    quantizer.corrections, quantizer.states = correction_functions(project.target.options, "quantizer")
    if is_rewriting:
        quantizer.rewrites = rewrite_functions(project.target.options)
    with warnings.catch_warnings():
        # The setters for operators and nodes warn at every call that they are experimental.
        warnings.simplefilter("ignore")
        for kind, match, config in project.quantizer_calls():
            if kind == "quantizer":
                assert isinstance(config, PluginConfig)
                quantizer.add_quantizer(plugins.quantizer(config.reference))
                continue
            arm = arm_config(config, plugins, is_qat=is_qat)
            _call(quantizer, kind, match if kind != "finder" else plugins.finder(match), arm)
    return quantizer


def _call(quantizer: Any, kind: RuleKind, match: Any, arm: Any) -> None:
    match kind:
        case "global":
            quantizer.set_global(arm)
        case "io":
            quantizer.set_io(arm)
        case "module_type" if "." not in match:
            quantizer.set_node_finder(arm, OfClass(match))
        case "module_type":
            _set_module_type(quantizer, match, arm)
        case "module_name":
            quantizer.set_module_name(match, arm)
        case "node_target":
            quantizer.set_node_finder(arm, MadeOf(operators=(str(operator(match)),)))
        case "node_name":
            quantizer.set_node_finder(arm, MadeOf(names=(match,)))
        case "finder":
            quantizer.set_node_finder(arm, match)
        case _:
            raise failure(
                "The Ethos-U quantizer supports names, not patterns.",
                "List the nodes or modules by name, or choose the target Number formats.",
                Place(kind="rule", id=match),
                code="pattern-rules-not-supported",
            )


def _set_module_type(quantizer: Any, match: str, arm: Any) -> None:
    """Set a class by its full name, the only attribute that the quantizer compares."""
    module, _, name = match.rpartition(".")
    quantizer.set_module_type(type(name, (), {"__module__": module, "__qualname__": name}), arm)


def operator(name: str) -> Any:
    """Return the operator with a dotted name such as ``aten.relu.default``.

    Raises:
        WorkbenchError: torch has no such operator.
    """
    parts = name.removeprefix("torch.ops.").split(".")
    resolved: Any = torch.ops
    try:
        for part in parts:
            resolved = getattr(resolved, part)
    except (AttributeError, RuntimeError):
        resolved = None
    if not isinstance(resolved, torch._ops.OpOverload):  # noqa: SLF001 - its only name
        raise failure(
            f"Unknown torch operator {name}.",
            "Write namespace.name.overload, e.g. aten.relu.default.",
            Place(kind="rule", id=name),
            code="operator-unknown",
        )
    return resolved


def prepare(module: torch.fx.GraphModule, quantizer: EthosUQuantizer) -> torch.fx.GraphModule:
    """Return the module with the quantizer's observers."""
    if isinstance(quantizer, ReportingQuantizer):
        quantizer.modules = {n.name: programs.module_of(n) for n in module.graph.nodes}
        changed = made_foldable(module, quantizer.corrections.get("batch_norm_folding", ()))
        corrected = {name: tuple(nodes) for name, nodes in changed.items()}
        quantizer.corrected = {**quantizer.corrected, **corrected}
    modules = modules_by_operator(module)
    try:
        prepared: torch.fx.GraphModule = prepare_pt2e(module, quantizer)
    except NotWrittenError as error:
        raise complex_refused(error) from error
    except Exception as error:
        if refused := preparing_failed(error, modules):
            raise refused from error
        raise
    _refuse_other_floats(prepared)
    return prepared


def _refuse_other_floats(prepared: torch.fx.GraphModule) -> None:
    """Raise for a value of another float type that is to be quantized: it has to be float32."""
    for node in prepared.graph.nodes:
        source = node.args[0] if node.op == "call_module" and node.args else None
        value = source.meta.get("val") if isinstance(source, torch.fx.Node) else None
        if source is not None and isinstance(value, torch.Tensor) and value.dtype in _OTHER_FLOATS:
            module = programs.module_of(source)
            where = f" of {module}" if module else ""
            name = programs.dtype_name(value.dtype)
            raise failure(
                f"{source.name}{where} is of {name}, which cannot be quantized.",
                "Compute in float32: call .float() on the model and on its inputs, or on the "
                f"value, and leave conversions to {name} out of forward. Or give the operator the config "
                "float.",
                Place(kind="module", id=module) if module else Place(kind="node", id=source.name),
                code=f"{name}-not-quantized",
            )


_OTHER_FLOATS = (torch.float64, torch.float16, torch.bfloat16)


def convert(module: torch.fx.GraphModule, *, fold: bool = True) -> torch.fx.GraphModule:
    """Return the module with quantize and dequantize operators instead of observers."""
    converted: torch.fx.GraphModule = convert_pt2e(module, fold_quantize=fold)
    return converted


def memory(observed: torch.fx.GraphModule) -> None:
    """Return nothing: Vela reports the memory of a program."""
    del observed


def report(
    quantizer: EthosUQuantizer, prepared: torch.fx.GraphModule, project: Project
) -> list[NodeAnnotation]:
    """Return for every operator whether and by what it was quantized, or why not.

    Source: ExecuTorch 1.5.1 ``QuantizerReporter`` and the nodes' own metadata; nodes without a
    pattern are in no report and are derived from the metadata.
    """
    del quantizer
    labels = _labels(project)
    rows = []
    for node in prepared.graph.nodes:
        if node.op != "call_function" or "val" not in node.meta:
            continue
        quantized = bool(_annotation(node))
        reported = node.meta.get(_REPORT, _Report())
        reason = "" if quantized else reported.reason or _NO_PATTERN
        rows.append(
            NodeAnnotation(
                node=node.name,
                op=programs.op_of(node),
                module=programs.module_of(node),
                config=_config(reported.label, labels) if quantized else "float",
                by=reported.by,
                quantized=quantized,
                reason=_in_words(reason),
            )
        )
    return rows


def _config(label: str, labels: dict[str, str]) -> str:
    """Return our name of a config; nodes that share a neighbour's grid have no config."""
    return SHARED if label.startswith("shared") else labels.get(label, name_of(label))


SHARED = "shared"
_NO_PATTERN = "The Ethos-U quantizer has no pattern for this operator."
_WORDS = {
    "Tried annotating already quantized node.": "A stronger rule already quantized it.",
    "All inputs and outputs to these nodes are non-quantized.": (
        "All operators around it are float, so it stays float too."
    ),
    "No float inputs nor outputs to annotate": "It has no floating-point tensors.",
    "Tried annotating unsupported quantization config": (
        "The target does not support this operator in this config."
    ),
    "Tried annotating unsupported configuration of operators": (
        "The target does not support this combination of operators."
    ),
}


def _in_words(reason: str) -> str:
    return _WORDS.get(reason.strip(), reason)


def _annotation(node: torch.fx.Node) -> bool:
    note = node.meta.get("quantization_annotation")
    if note is None:
        return False
    return bool(note.output_qspec is not None or any(note.input_qspec_map.values()))


def _reports(quantizer: EthosUQuantizer) -> tuple[dict[str, tuple[str, str]], dict[str, str]]:
    accepted: dict[str, tuple[str, str]] = {}
    rejected: dict[str, str] = {}
    for part in quantizer.quantizer.quantizers:
        reporter = getattr(part, "reporter", None)
        report = reporter.quantizers.get(part) if reporter is not None else None
        if report is None:
            continue
        info = report.quantizer_info
        for pattern in report.accepted_patterns:
            for node in pattern.nodes:
                accepted[node.name] = (str(info.targeted_nodes_description), str(info.qconfig_label))
        for pattern in report.rejected_patterns:
            for name in pattern.node_names:
                rejected.setdefault(name, str(pattern.rejection_reason))
    return accepted, rejected


def _labels(project: Project) -> dict[str, str]:
    """Return our names for the labels of the Arm configs; those of plug-ins are their names."""
    names: dict[str, str] = {}
    for rule in project.rules:
        config = None if rule.keeps_off else project.config_of(rule)
        if isinstance(config, QuantConfig):
            names.setdefault(str(factory_config(config).label), project.label_of(rule))
    return names
