"""Quantization configs as values, and the named presets built from them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

from pydantic import Field, JsonValue, model_validator

from workbench.errors import failure
from workbench.ids import PresetId
from workbench.project.frozen import Finite


class DynamicConfig(Finite):
    """A config with static weights and dynamic activation ranges, computed at run time.

    ``dynamic`` is the integer type. Symmetry is a target option for the whole program.
    """

    dynamic: Literal["int8"] = "int8"

    @property
    def label(self) -> str:
        """A short name."""
        return f"{self.dynamic}-dyn"


class FormatConfig(Finite):
    """A config that emulates a number format on the operands of an operation.

    ``scheme`` is a format of ``workbench formats list``. ``parameters`` are flat with MASE's names:
    ``data_in_*`` for activations, ``weight_*`` for weights and second operands, ``bias_*``.
    Parameters without a prefix apply to all operands.
    """

    scheme: str = Field(min_length=1)
    parameters: dict[str, JsonValue] = Field(default_factory=dict)
    mase_compatible: bool = False

    @property
    def label(self) -> str:
        """A short label: the scheme, data and weight bits if given, and MASE's form."""
        given = self.parameters
        widths = [given.get(f"{prefix}width", given.get("width")) for prefix in _SHOWN]
        bits = "/".join(str(w) for w in dict.fromkeys(widths) if w is not None)
        return " ".join(part for part in (self.scheme, bits, _MASE * self.mase_compatible) if part)


_SHOWN = ("data_in_", "weight_")
_MASE = "(MASE)"


def range_fault(minimum: float, maximum: float) -> str:
    """Return why two real values are not a valid grid range; "" if they are."""
    if not (math.isfinite(minimum) and math.isfinite(maximum)):
        return f"the range [{minimum}, {maximum}] is not finite"
    if not minimum < maximum:
        return f"minimum {minimum} is not below maximum {maximum}"
    if minimum > 0.0 or maximum < 0.0:
        return f"the range [{minimum}, {maximum}] excludes zero, which must have an exact code"
    return ""


class FixedRange(Finite):
    """A pinned range that replaces the calibrated one.

    ``tensor`` is the node of the exported graph that produces it.
    """

    tensor: str = Field(min_length=1)
    minimum: float
    maximum: float

    @model_validator(mode="after")
    def _is_a_range(self) -> Self:
        if fault := range_fault(self.minimum, self.maximum):
            raise ValueError(f"{self.tensor}: {fault}")
        return self


ObserverKind = Literal["histogram", "minmax", "moving_average", "percentile", "fixed", "plugin"]
PluginRole = Literal["config", "observer", "finder", "quantizer"]
ActivationDtype = Literal["int8", "int16", "uint8"]


class Observer(Finite):
    """How a range is computed from calibration data.

    ``percentile`` is the share of values kept [%]; ``minimum`` and ``maximum`` are the real bounds
    of a fixed range; ``plugin`` names a plug-in's observer.
    """

    kind: ObserverKind = "histogram"
    percentile: float = Field(default=99.99, gt=50.0, le=100.0)
    averaging_constant: float = Field(default=0.01, gt=0.0, le=1.0)
    minimum: float | None = None
    maximum: float | None = None
    plugin: str = ""

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if self.kind == "plugin" and not is_reference(self.plugin):
            raise ValueError("name the plug-in's observer: FILE.py:name or package.module:name")
        if self.kind != "fixed":
            return self
        if self.minimum is None or self.maximum is None:
            raise ValueError("a fixed range needs both minimum and maximum")
        if fault := range_fault(self.minimum, self.maximum):
            raise ValueError(fault)
        return self


class Activation(Finite):
    """Precision of activations, the tensors between operators."""

    dtype: ActivationDtype = "int8"
    symmetric: bool = False
    observer: Observer = Observer()


class Weight(Finite):
    """Precision of constant weights; always symmetric, as Ethos-U requires."""

    bits: Literal[8, 4] = 8
    per_channel: bool = True


class QuantConfig(Finite):
    """A static integer config: activations, weights and observer."""

    activation: Activation = Activation()
    weight: Weight = Weight()


class PluginConfig(Finite):
    """A config or a complete quantizer provided by a plug-in.

    ``reference`` is ``FILE.py:name`` or ``package.module:name``.
    """

    reference: str

    @property
    def label(self) -> str:
        """The name inside the plug-in."""
        return self.reference.rpartition(":")[2]


def is_reference(text: str) -> bool:
    """Return whether a string has the form of a plug-in reference."""
    plugin, _, name = text.rpartition(":")
    return bool(plugin) and name.isidentifier()


# Configs of a project: static integers, dynamic integers, or an emulated number format.
Config = QuantConfig | DynamicConfig | FormatConfig
# What a rule can assign: one of these configs, or one made by a plug-in.
AnyConfig = Config | PluginConfig


def integers_of(config: Config | None) -> QuantConfig | None:
    """Return an integer config; None means float.

    Raises:
        WorkbenchError: the config is a number format, or its ranges are dynamic.
    """
    if isinstance(config, DynamicConfig):
        raise failure(
            f"{config.label} computes its ranges at run time; this target needs calibrated ranges.",
            "Choose a config with calibrated ranges for the rule.",
            code="config-dynamic-not-supported",
        )
    if isinstance(config, FormatConfig):
        raise failure(
            f"{config.label} is a number format, which is only emulated.",
            "Choose the target Number formats, or an integer config for the rule.",
            code="config-format-not-supported",
        )
    return config


class Preset(Finite):
    """A named config; ``config`` None leaves the part in float.

    ``io_only`` presets apply to inputs and outputs only. ``places`` presets choose where a part
    runs and leave its precision to other rules.
    """

    id: PresetId
    title: str
    description: str
    config: Config | None
    io_only: bool = False
    places: bool = False


A8W8 = QuantConfig()
A16W8 = QuantConfig(activation=Activation(dtype="int16", symmetric=True))

_FORMATS: tuple[tuple[PresetId, str, FormatConfig], ...] = (
    (
        "integer-8",
        "Fixed point, 8 bits, 4 after the point",
        FormatConfig(scheme="integer", parameters={"width": 8, "frac_width": 4}),
    ),
    (
        "minifloat-8",
        "Minifloat E4M3, all codes finite",
        FormatConfig(
            scheme="minifloat_ieee", parameters={"width": 8, "exponent_width": 4, "exponent_bias": 7}
        ),
    ),
    (
        "block-fp-8",
        "Block floating point, 16 elements share 8 bits",
        FormatConfig(scheme="block_fp", parameters={"width": 8, "exponent_width": 8, "block_size": [1, 16]}),
    ),
    ("mxint-8", "Microscaling integers, MXINT8", FormatConfig(scheme="mxint", parameters={"width": 8})),
    (
        "mxfp-8",
        "Microscaling floats, MXFP8 E4M3",
        FormatConfig(scheme="mxfp", parameters={"exponent_width": 4, "frac_width": 3}),
    ),
    (
        "mxfp-4",
        "Microscaling floats, MXFP4 E2M1",
        FormatConfig(scheme="mxfp", parameters={"exponent_width": 2, "frac_width": 1}),
    ),
    ("nvfp4", "NVFP4: E2M1 with E4M3 scales", FormatConfig(scheme="nvfp4")),
)

PRESETS: tuple[Preset, ...] = (
    Preset(
        id="a8w8",
        title="8-bit, per channel",
        description="int8 activations, int8 weights with one scale per output channel",
        config=A8W8,
    ),
    Preset(
        id="a16w8",
        title="16-bit activations",
        description="int16 symmetric activations, int8 weights per channel: about twice the memory",
        config=A16W8,
    ),
    Preset(
        id="a8w4",
        title="4-bit weights",
        description="int8 activations, 4-bit weights per channel: half the weight stream",
        config=QuantConfig(weight=Weight(bits=4)),
    ),
    Preset(
        id="a8w8-per-tensor",
        title="8-bit, per tensor",
        description="int8 activations, int8 weights with a single scale",
        config=QuantConfig(weight=Weight(per_channel=False)),
    ),
    Preset(
        id="uint8",
        title="uint8 input and output",
        description="uint8 inputs and outputs of the model, for cameras and displays",
        config=QuantConfig(activation=Activation(dtype="uint8")),
        io_only=True,
    ),
    Preset(id="float", title="Float", description="not quantized: stays in float32 on the CPU", config=None),
    Preset(
        id="cpu",
        title="Off the NPU",
        description="runs on the CPU; its precision is set by other rules",
        config=None,
        places=True,
    ),
    Preset(
        id="int8-dyn",
        title="8-bit, dynamic ranges",
        description=("int8 weights with one scale; int8 activations with a range computed at every call"),
        config=DynamicConfig(),
    ),
    *(Preset(id=name, title=title, description=title, config=config) for name, title, config in _FORMATS),
)
PRESETS_BY_ID: Mapping[str, Preset] = {preset.id: preset for preset in PRESETS}


MethodId = Literal["histogram", "minmax", "percentile", "mse", "kl"]
MethodScope = Literal["all", "module", "tensor"]
_WIDEST_FIRST: tuple[MethodScope, ...] = ("all", "module", "tensor")


class RangeMethod(Finite):
    """A method that computes ranges from calibration data, instead of the rules' observers.

    ``match`` is a module path, or the exported node that produces a tensor; "" means all
    activations. Ranges are recomputed when data, weights or precision change.
    """

    scope: MethodScope
    match: str = ""
    method: MethodId = Field(description="see workbench.analysis.ranges")

    @model_validator(mode="after")
    def _names_what_it_is_for(self) -> Self:
        if (self.scope == "all") == bool(self.match):
            wanted = "takes no match" if self.scope == "all" else "needs a match"
            raise ValueError(f"a method for {self.scope} {wanted}")
        return self

    @property
    def strength(self) -> tuple[int, int]:
        """Sort key of precedence: a tensor before a module, an inner module before an outer one."""
        return _WIDEST_FIRST.index(self.scope), self.match.count(".")

    def speaks_of(self, tensor: str, module: str) -> bool:
        """Return whether the method applies to a tensor of a module."""
        if self.scope == "tensor":
            return tensor == self.match
        inside = module == self.match or module.startswith(f"{self.match}.")
        return self.scope == "all" or inside

    @property
    def scope_text(self) -> str:
        """The display name of its scope."""
        named = {"all": "all activations", "module": f"all of {self.match}", "tensor": self.match}
        return named[self.scope]


def without_origins(raw: dict[str, Any]) -> dict[str, Any]:
    """Return raw fields in which no pinned range names a method: such ranges become methods.

    Before version 2 of the project file, a chosen method was stored as its resulting range.
    """
    ranges, methods = raw.get("ranges"), raw.get("range_methods", [])
    if not isinstance(ranges, list) or not isinstance(methods, list):
        return raw
    if not all(isinstance(fixed, dict) for fixed in ranges):
        return raw
    taken = [
        {"scope": "tensor", "match": fixed.get("tensor"), "method": fixed["by"]}
        for fixed in ranges
        if fixed.get("by")
    ]
    kept = [
        {name: value for name, value in fixed.items() if name != "by"}
        for fixed in ranges
        if not fixed.get("by")
    ]
    return {**raw, "ranges": kept, "range_methods": [*methods, *taken]}


ImproverId = Literal["equalize", "smooth", "scales", "clips", "gptq", "rounding", "bias", "norms"]
# Calibration samples that improvers by layer need at least.
FEWEST_SAMPLES = 8


@dataclass(frozen=True)
class Improver:
    """One improver.

    ``needs_data`` if it uses calibration samples, ``by_layer`` if it compares each layer of the
    quantized program with the float model, ``rounds`` if it chooses the rounding of the weights.
    ``fewest`` is how many samples it needs.
    """

    id: ImproverId
    title: str
    description: str
    needs_data: bool = True
    by_layer: bool = True
    rounds: bool = False
    fewest: int = FEWEST_SAMPLES


# In order of application.
IMPROVERS: tuple[Improver, ...] = (
    Improver(
        "equalize",
        "Equalise layers",
        "Scales channels of two consecutive layers so that both use their range, also where a "
        "cat joins them with others; the float model is unchanged. Helps per-tensor and 4-bit "
        "weights of convolutions with ReLU, and a cat of operands of unlike size.",
        needs_data=False,
        by_layer=False,
        fewest=0,
    ),
    Improver(
        "smooth",
        "Smooth linears",
        "Moves activation outliers into the weights of linears after a layer norm "
        "(SmoothQuant); the float model is unchanged. Helps transformers.",
        by_layer=False,
        fewest=1,
    ),
    Improver(
        "scales",
        "Activation-aware scales",
        "Scales channels in front of a layer so that those with large activations have finer "
        "weights (AWQ); the float model is unchanged. Helps 4-bit weights of linears.",
    ),
    Improver(
        "clips",
        "Learn clips",
        "Chooses the ranges of weights and of activations by the error of each layer's output. "
        "Helps 4-bit weights.",
    ),
    Improver(
        "gptq",
        "GPTQ",
        "Rounds the weights of each layer one after another; later weights make up for the error "
        "of earlier ones. Takes seconds; helps 4-bit weights.",
        rounds=True,
    ),
    Improver(
        "rounding",
        "Learn rounding",
        "Learns for each weight whether to round up or down, by the error of its layer's output "
        "(AdaRound). Takes longer than GPTQ; helps 4-bit weights.",
        rounds=True,
    ),
    Improver(
        "bias",
        "Correct biases",
        "Subtracts the mean error of rounded weights from the biases, per channel. "
        "Changes the float model slightly; helps 4-bit weights.",
        fewest=1,
    ),
    Improver(
        "norms",
        "Re-estimate statistics",
        "Corrects mean and variance of each layer's output, per channel, as batch norms "
        "re-estimated after quantization. Helps where batch norms follow convolutions.",
    ),
)


ImproverPresetId = Literal["rounding+clips"]


@dataclass(frozen=True)
class ImproverPreset:
    """Improvers that work well together; never switched on unasked."""

    id: ImproverPresetId
    title: str
    improvers: tuple[ImproverId, ...]


IMPROVER_PRESETS: tuple[ImproverPreset, ...] = (
    ImproverPreset("rounding+clips", "Learned rounding and clips", ("clips", "rounding")),
)


class Improving(Finite):
    """Settings of improvers.

    ``samples`` is how many calibration samples they use, chosen by ``seed`` where there are more;
    ``time_limit_s`` [s] ends them with what is done so far, None never.
    """

    seed: int = Field(default=0, ge=0, le=2**31 - 1)
    samples: int = Field(default=128, ge=FEWEST_SAMPLES, le=4096)
    time_limit_s: int | None = Field(default=1800, ge=1, le=7 * 24 * 3600)
