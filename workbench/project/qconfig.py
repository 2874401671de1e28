"""Quantization configs as values, and the named presets built from them."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from workbench.errors import failure
from workbench.project.dynamic_config import DynamicConfig
from workbench.project.fixed_range import range_fault
from workbench.project.format_config import FormatConfig
from workbench.project.frozen import Frozen

ObserverKind = Literal["histogram", "minmax", "moving_average", "percentile", "fixed", "plugin"]
PluginRole = Literal["config", "observer", "finder", "quantizer"]
ActivationDtype = Literal["int8", "int16", "uint8"]


class Observer(Frozen):
    """How a range is taken from calibration data.

    ``percentile`` is the share of values kept, in percent; ``minimum`` and ``maximum`` are the
    real values that a fixed range spans; ``plugin`` names a plug-in's observer.
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


class Activation(Frozen):
    """Precision of the tensors that flow between operators."""

    dtype: ActivationDtype = "int8"
    symmetric: bool = False
    observer: Observer = Observer()


class Weight(Frozen):
    """Precision of constant weights; always symmetric, as Ethos-U wants them."""

    bits: Literal[8, 4] = 8
    per_channel: bool = True


class QuantConfig(Frozen):
    """One way to quantize a part of a model."""

    activation: Activation = Activation()
    weight: Weight = Weight()


class PluginConfig(Frozen):
    """What a plug-in makes: a config, or a quantizer that decides by itself.

    ``reference`` is ``FILE.py:name`` or ``package.module:name``.
    """

    reference: str

    @property
    def label(self) -> str:
        """The name inside the plug-in."""
        return self.reference.rpartition(":")[2]


def is_reference(text: str) -> bool:
    """Return whether a text names something in a plug-in, by its form alone."""
    plugin, _, name = text.rpartition(":")
    return bool(plugin) and name.isidentifier()


# What a project can hold: integers on ranges, ranges at each call, or an emulated number format.
Config = QuantConfig | DynamicConfig | FormatConfig
# What a rule can assign by name: one of these, or something that a plug-in makes.
AnyConfig = Config | PluginConfig


def integers_of(config: Config | None) -> QuantConfig | None:
    """Return a config that is for integers; None is float.

    Raises:
        WorkbenchError: it is a number format, which no device computes, or has no ranges to keep.
    """
    if isinstance(config, DynamicConfig):
        raise failure(
            f"{config.label} takes its ranges at every call; here they are needed beforehand.",
            "Choose a config with calibrated ranges for the rule.",
        )
    if isinstance(config, FormatConfig):
        raise failure(
            f"{config.label} is a number format, and those are emulated only.",
            "Choose the target Number formats, or a config of integers for the rule.",
        )
    return config


class Preset(Frozen):
    """A named config; ``config`` None leaves the part in float.

    ``io_only`` is for inputs and outputs alone; ``places`` says where a part runs and leaves its
    precision to other rules.
    """

    id: str
    title: str
    description: str
    config: Config | None
    io_only: bool = False
    places: bool = False


A8W8 = QuantConfig()
A16W8 = QuantConfig(activation=Activation(dtype="int16", symmetric=True))

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
        description="uint8 tensors at the border of the model, for cameras and displays",
        config=QuantConfig(activation=Activation(dtype="uint8")),
        io_only=True,
    ),
    Preset(
        id="float",
        title="Float",
        description="not quantized: stays in float32 on the CPU",
        config=None,
    ),
    Preset(
        id="cpu",
        title="Off the NPU",
        description="runs on the CPU; other rules decide its precision",
        config=None,
        places=True,
    ),
    Preset(
        id="int8-dyn",
        title="8-bit, ranges at each call",
        description="int8 weights with one scale; activations as int8 with a new range every call",
        config=DynamicConfig(),
    ),
    *(
        Preset(id=name, title=title, description=title, config=config)
        for name, title, config in (
            (
                "integer-8",
                "Fixed point, 8 bits, 4 after the point",
                FormatConfig(scheme="integer", parameters={"width": 8, "frac_width": 4}),
            ),
            (
                "minifloat-8",
                "Minifloat E4M3, all codes finite",
                FormatConfig(
                    scheme="minifloat_ieee",
                    parameters={"width": 8, "exponent_width": 4, "exponent_bias": 7},
                ),
            ),
            (
                "block-fp-8",
                "Block floating point, 16 elements share 8 bits",
                FormatConfig(
                    scheme="block_fp",
                    parameters={"width": 8, "exponent_width": 8, "block_size": [1, 16]},
                ),
            ),
            (
                "mxint-8",
                "Microscaling integers, MXINT8",
                FormatConfig(scheme="mxint", parameters={"width": 8}),
            ),
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
    ),
)
PRESETS_BY_ID = {preset.id: preset for preset in PRESETS}
