"""Adapter of a torchao quantizer to the Ethos-U quantizer.

This file depends on torchao and ExecuTorch only, because generated scripts contain it.
Source of the additions: ExecuTorch 1.5.1, whose ``QuantizerReporter`` fails for quantizers that it
cannot name, whose other quantizers skip only nodes marked by ``PatternMatcher``, and whose
partitioner selects only nodes marked by ``ArmAnnotationInfo`` for the NPU.
"""

from typing import Any

from executorch.backends.arm.common.annotation_meta import ArmAnnotationInfo
from executorch.backends.arm.constants import DISALLOW_TFA_META_KEY
from executorch.backends.cortex_m.quantizer.pattern_matcher import PatternMatcher
from executorch.backends.cortex_m.quantizer_reporter import QuantizerInfo, QuantizerReporterUser
from torchao.quantization.pt2e.quantizer import Quantizer
from torchao.quantization.pt2e.quantizer.quantizer import Q_ANNOTATION_KEY


class PluginQuantizer(Quantizer, QuantizerReporterUser):
    """Runs another quantizer, reports its annotations, and marks them for the NPU.

    The quantizer must skip annotated nodes, like every quantizer of a composition; its
    ``transform_for_annotation`` is not called, since that of Ethos-U is.
    """

    def __init__(self, own: Any, label: str) -> None:
        super().__init__()
        QuantizerReporterUser.__init__(self)
        self.own, self.label = own, label

    def get_quantizer_info(self) -> QuantizerInfo:
        """Return the entry of the report: its name, also used for its configs."""
        return QuantizerInfo(self.label, self.label, self.label, self.label)

    def annotate(self, model: Any) -> Any:
        """Annotate, and mark new annotations for the NPU."""
        before = {node for node in model.graph.nodes if Q_ANNOTATION_KEY in node.meta}
        self.own.annotate(model)
        for node in model.graph.nodes:
            if node not in before and Q_ANNOTATION_KEY in node.meta:
                self._mark(node)
        return model

    def _mark(self, node: Any) -> None:
        note = node.meta[Q_ANNOTATION_KEY]
        note._annotated = True  # noqa: SLF001 - its only name
        quantized = note.output_qspec is not None or any(note.input_qspec_map.values())
        if node.op == "call_function":
            info = {ArmAnnotationInfo.CUSTOM_META_KEY: dict(ArmAnnotationInfo(quantized=quantized))}
            node.meta["custom"] = {**node.meta.get("custom", {}), **info}
        node.meta[DISALLOW_TFA_META_KEY] = not quantized
        node.meta[PatternMatcher.Q_PATTERN_MATCHED_KEY] = True
        self.report_accept([node])

    def validate(self, model: Any) -> None:
        """Delegate to the quantizer's own check."""
        self.own.validate(model)
