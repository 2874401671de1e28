"""The project: one frozen value with all of the user's settings."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import Field, JsonValue, PositiveInt, model_validator

from workbench.project.accuracy import Accuracy
from workbench.project.configs import (
    PRESETS_BY_ID,
    AnyConfig,
    Config,
    DynamicConfig,
    FixedRange,
    FormatConfig,
    ImproverId,
    Improving,
    PluginConfig,
    PluginRole,
    QuantConfig,
    RangeMethod,
    is_reference,
)
from workbench.project.frozen import Finite, Frozen
from workbench.project.gate import Gate

QUERIES_AT_MOST = 8
PROJECT_VERSION = 10
PROJECT_SUFFIX = ".qwb"

RuleKind = Literal[
    "global", "module_type", "module_name", "node_target", "node_name", "pattern", "io", "finder", "quantizer"
]

RULE_CALLS: dict[RuleKind, str] = {
    "global": "set_global",
    "module_type": "set_module_type",
    "module_name": "set_module_name",
    "node_target": "set_node_target",
    "node_name": "set_node_name",
    "pattern": "regex_name",
    "io": "set_io",
    "finder": "set_node_finder",
    "quantizer": "add_quantizer",
}
# Rules whose matches are determined by plug-in code.
PLUGIN_KINDS: tuple[RuleKind, ...] = ("finder", "quantizer")


# ExecuTorch's partitioner names of rule kinds; nodes and operators are those of the float program.
KEEPING_CALLS: dict[RuleKind, str] = {
    "global": "DontPartition",
    "module_type": "DontPartitionModule",
    "module_name": "DontPartitionModule",
    "node_target": "DontPartition",
    "node_name": "DontPartitionName",
    "pattern": "DontPartition",
    "io": "DontPartition",
    "finder": "DontPartition",
    "quantizer": "DontPartition",
}


class ModelSource(Finite):
    """The source of the float model.

    ``spec`` is ``FILE.pt2``, ``FILE.onnx``, ``FILE.py:callable`` or ``package.module:callable``;
    paths are relative to the project. ``input_shapes`` or ``inputs`` (an .npz) provide example
    inputs if the callable returns none. ``weights`` is a .safetensors file or a state dict saved by
    torch.
    """

    spec: str = Field(min_length=1)
    input_shapes: tuple[tuple[PositiveInt, ...], ...] = ()
    inputs: str | None = None
    weights: str | None = None
    strict_export: bool = False


class Preprocess(Frozen):
    """Conversion of pictures to the model's input, in the order of the fields.

    Without ``crop``, a picture is resized to ``size`` [height, width]. With ``crop``, it is resized
    so that it covers ``size`` and keeps its aspect ratio, and the centre ``crop`` [height, width]
    is taken, as torchvision's ``Resize(n)`` and ``CenterCrop`` do. With ``letterbox``, a picture is
    resized so that it fits into ``size`` and keeps its aspect ratio, in the middle of a border with
    that value of a pixel, as detectors take it. ``filter`` is Pillow's. Pixels
    are in ``layout``; ``auto`` is gray for one channel, else RGB. For ``float32`` the value is
    (pixel / scale - mean) / std, with one mean and std or one per channel; ``uint8`` is the pixel
    itself and ``int8`` the pixel minus 128. ``order`` says where the channels are: ``auto`` follows
    the model's input shape. With ``fold``, the model's input is quantized on the pixels' own grid,
    so that its integer code is the pixel, or the pixel minus 128.
    """

    size: tuple[PositiveInt, PositiveInt]
    crop: tuple[PositiveInt, PositiveInt] | None = None
    letterbox: int | None = Field(default=None, ge=0, le=255)
    filter: Literal["bilinear", "bicubic", "nearest", "lanczos", "box"] = "bilinear"
    layout: Literal["auto", "rgb", "bgr", "gray"] = "auto"
    dtype: Literal["float32", "uint8", "int8"] = "float32"
    scale: float = Field(default=255.0, gt=0, allow_inf_nan=False)
    mean: tuple[float, ...] = Field(default=(0.0,), min_length=1)
    std: tuple[float, ...] = Field(default=(1.0,), min_length=1)
    order: Literal["auto", "first", "last"] = "auto"
    fold: bool = False

    @model_validator(mode="after")
    def _consistent(self) -> Preprocess:
        if self.crop and (self.crop[0] > self.size[0] or self.crop[1] > self.size[1]):
            raise ValueError("crop is larger than size")
        if self.crop and self.letterbox is not None:
            raise ValueError("a picture is cropped or letterboxed, not both")
        if not all(math.isfinite(value) for value in (*self.mean, *self.std)):
            raise ValueError("mean and std must be finite")
        if any(value == 0 for value in self.std):
            raise ValueError("std must not be 0")
        normalized = (self.scale, self.mean, self.std) != (255.0, (0.0,), (1.0,))
        if self.dtype != "float32" and normalized:
            raise ValueError(f"{self.dtype} takes the pixels as they are: no scale, mean or std")
        if self.fold:
            self._require_grid()
        return self

    def _require_grid(self) -> None:
        """Return if one grid has every normalized pixel: step 1 / (scale * std), zero at a pixel.

        Raises:
            ValueError: No such grid of 256 codes exists.
        """
        if self.dtype != "float32" or len({*self.mean}) > 1 or len({*self.std}) > 1:
            raise ValueError("fold needs dtype=float32 and one mean and std for all channels")
        zero = self.mean[0] * self.scale
        if self.std[0] < 0 or not 0 <= round(zero) <= 255 or abs(zero - round(zero)) > 1e-3:
            raise ValueError(
                "fold needs a mean that is the value of a pixel: mean * scale is "
                f"{zero:g}, not a whole number from 0 to 255"
            )

    @property
    def pixel_range(self) -> tuple[float, float]:
        """The normalized values of the pixels 0 and 255."""
        first, last = ((pixel / self.scale - self.mean[0]) / self.std[0] for pixel in (0.0, 255.0))
        return first, last

    @property
    def shown(self) -> tuple[int, int]:
        """Height and width of the result."""
        return self.crop or self.size


class Tokenization(Finite):
    """Conversion of text to token sequences, which a decoder processes step by step.

    ``tokenizer`` is a ``tokenizer.json`` of the package tokenizers, or a callable (text -> ids);
    without one, every byte is a token. ``length`` is the number of steps after which the decoder's
    state is reset: at most its context length.
    """

    tokenizer: str = ""
    length: int = Field(default=64, ge=1)


class DataSource(Finite):
    """A stream of samples: arrays, pictures, ``FILE.py:callable``, or ``FILE.txt`` for decoders.

    ``labels`` is a file with a class, or any other value for a metric, for each sample, a folder of
    YOLO texts or of masks, or ``folders``: pictures are in one folder for each class, numbered by
    name. ``limit`` takes the first samples only, ``dropped`` leaves some out.
    """

    spec: str = Field(min_length=1)
    preprocess: Preprocess | None = None
    tokens: Tokenization | None = None
    limit: int | None = Field(default=None, ge=1)
    labels: str | None = None
    dropped: tuple[int, ...] = ()


class ObjectSelection(Finite):
    """Which objects count that a detector's outputs were decoded to.

    ``confidence`` is the lowest score. Of objects of one class whose boxes overlap by more than
    ``iou`` (intersection over union) the one with the higher score remains: non-maximum suppression
    on the host; 1 keeps all. ``most`` is the largest number in a sample. Objects with at least the
    score ``shown`` are drawn, and compared for what quantization loses or adds.
    """

    confidence: float = Field(default=0.001, ge=0, le=1)
    iou: float = Field(default=0.5, ge=0, le=1)
    most: int = Field(default=100, ge=1, le=1000)
    shown: float = Field(default=0.25, ge=0, le=1)


# Metrics of the program itself; any other is FILE.py:callable.
BUILT_IN_METRICS = ("detection", "segmentation", "key_points")


class Evaluation(Finite):
    """The data and metric for quality.

    ``metric`` is ``FILE.py:callable(outputs, labels)``, or one of the program's own: ``detection``
    (mean average precision of boxes), ``segmentation`` (mean intersection over union) or
    ``key_points`` (share of correct points). ``decode`` is ``FILE.py:callable(outputs)``, which
    those apply to the outputs for each sample; ``objects`` chooses among what it returns.

    Without data, every fourth sample of the calibration data is used, if there are at least 32, and
    calibration does not see it. ``hold_out`` switches that off: calibration and evaluation then use
    the same samples.
    ``class_output`` is the position of the output that gives the class, for top-1; without it an
    output that can be one.
    """

    data: DataSource | None = None
    metric: str | None = None
    decode: str | None = None
    objects: ObjectSelection = ObjectSelection()
    limit: int = Field(default=256, ge=1)
    class_output: int | None = Field(default=None, ge=0)
    hold_out: bool = True

    @property
    def own_metric(self) -> str | None:
        """The reference of the user's metric; None for none, or one of the program's."""
        return None if self.metric in BUILT_IN_METRICS else self.metric

    @property
    def holds_out(self) -> bool:
        """Whether a part of the calibration data is kept for evaluation, if there is enough."""
        return self.hold_out and self.data is None


class TargetChoice(Finite):
    """The device: a variant id of the target table, and the options of that target."""

    id: str = Field(min_length=1)
    options: dict[str, JsonValue] = Field(default_factory=dict)


class Rule(Finite):
    """One assignment of precision; ``config`` is a preset id, a plug-in reference or a config.

    A ``pattern`` is a regular expression that must match the full name of a node or of its module,
    written with underscores or dots. A ``finder`` is a plug-in's node finder, named by ``match``. A
    ``quantizer`` is a plug-in's quantizer, named by ``config``; it chooses nodes and precision.
    """

    id: str = Field(min_length=1)
    kind: RuleKind
    match: str = ""
    config: str | Config
    enabled: bool = True

    @property
    def keeps_off(self) -> bool:
        """Whether the rule keeps its matches off the NPU and leaves their precision unchanged."""
        preset = PRESETS_BY_ID.get(self.config) if isinstance(self.config, str) else None
        return preset is not None and preset.places


class Compression(Finite):
    """The size of one layer, a convolution or a linear.

    ``channels`` is the number of output channels that stay; those of joined layers go with them.
    ``clusters`` is the number of distinct weights, relative to the largest of their channel. The
    empty ``module`` stands for every layer without an entry of its own, and takes clusters only.
    """

    module: str = ""
    channels: int | None = Field(default=None, ge=1)
    clusters: int | None = Field(default=None, ge=3, le=255)

    @model_validator(mode="after")
    def _consistent(self) -> Compression:
        if self.channels is None and self.clusters is None:
            raise ValueError("an entry needs channels or clusters")
        if not self.module and self.channels is not None:
            raise ValueError("channels need the name of a module")
        return self


class Verification(Finite):
    """The number of samples on which the integer program is verified."""

    samples: int = Field(default=16, ge=1, le=2**31 - 1)


class Bookmark(Finite):
    """A named view of a graph level.

    ``expanded`` are the open groups; ``anchor`` is the item next to the window's centre; ``dx`` and
    ``dy`` are the offset from its corner to the centre [px of the drawing], so that the view can be
    restored after the layout changes.
    """

    name: str = Field(min_length=1)
    level: str
    shape: Literal["modules", "folded", "flat"] = "modules"
    expanded: tuple[str, ...] = ()
    scale: float = Field(gt=0)
    anchor: str = ""
    dx: float = 0.0
    dy: float = 0.0


class SavedQuery(Finite):
    """A search whose matches are coloured."""

    text: str = Field(min_length=1)
    shown: bool = True


class GraphNotes(Finite):
    """Bookmarks and saved searches, in order of creation."""

    bookmarks: tuple[Bookmark, ...] = ()
    queries: tuple[SavedQuery, ...] = Field(default=(), max_length=QUERIES_AT_MOST)


class Project(Finite):
    """All settings that determine a result, and a few notes that do not.

    ``rules`` are in call order: general first; the last match wins. ``presets`` are the user's
    named configs. ``ranges`` are pinned ranges of single tensors; ``range_methods`` choose how
    other ranges are computed from calibration data: pinned ranges take precedence over methods,
    narrow methods over wide ones. ``improvers`` change the float weights before quantization, with
    the settings ``improving``;
    ``trained_weights``, a .safetensors file written by training, replace the float weights and the
    improvers. ``compressions`` remove channels before, and make weights alike after that.
    ``split_outputs`` are positions of outputs of the model that join tensors of different size: the
    program returns those tensors one by one, each with its own range, and the firmware joins them.
    ``output_factors`` has for each output of the model, in order, the factors that divide the
    tensors it joins, so that one range holds all of them; an output without factors stays. The
    firmware multiplies the elements again.
    ``training_function`` is ``FILE.py:callable``, the user's own. ``plugins`` are files,
    ``FILE.py``, that provide configs, observers, finders and quantizers. ``board`` is a board id or
    the path of a board file: it sets the target, and the program is checked against it.
    ``toolchain`` is the name of a toolchain of this machine; "" for the program's own.
    ``toolchain_versions`` are its versions when it was chosen, for a machine that does not have it.
    """

    version: int = PROJECT_VERSION
    name: str = Field(min_length=1)
    model: ModelSource
    calibration: DataSource | None = None
    evaluation: Evaluation = Evaluation()
    target: TargetChoice
    board: str = ""
    toolchain: str = ""
    toolchain_versions: str = ""
    rules: tuple[Rule, ...] = ()
    presets: dict[str, Config] = Field(default_factory=dict)
    ranges: tuple[FixedRange, ...] = ()
    range_methods: tuple[RangeMethod, ...] = ()
    improvers: tuple[ImproverId, ...] = ()
    improving: Improving = Improving()
    compressions: tuple[Compression, ...] = ()
    training_function: str | None = None
    trained_weights: str | None = None
    split_outputs: tuple[Annotated[int, Field(ge=0)], ...] = ()
    output_factors: tuple[tuple[Annotated[float, Field(gt=0)], ...], ...] = ()
    plugins: tuple[str, ...] = ()
    verification: Verification = Verification()
    gate: Gate = Gate()
    accuracy: Accuracy = Accuracy()
    notes: str = ""
    graph: GraphNotes = GraphNotes()

    def improves(self) -> bool:
        """Return whether improvers change the weights, which trained weights replace."""
        return bool(self.improvers) and self.trained_weights is None

    def config_of(self, rule: Rule) -> AnyConfig | None:
        """Return the config that ``rule`` assigns; None means float.

        Raises:
            KeyError: neither the program nor the project has the preset of the rule.
        """
        if not isinstance(rule.config, str):
            return rule.config
        if rule.config in self.presets:
            return self.presets[rule.config]
        if is_reference(rule.config):
            return PluginConfig(reference=rule.config)
        return PRESETS_BY_ID[rule.config].config

    def fixed_ranges(self) -> dict[str, tuple[float, float]]:
        """Return minimum and maximum of every pinned tensor."""
        return {fixed.tensor: (fixed.minimum, fixed.maximum) for fixed in self.ranges}

    def label_of(self, rule: Rule) -> str:
        """Return the short name shown for the rule's config."""
        if isinstance(rule.config, str) and rule.config in self.presets:
            return rule.config
        return name_of(rule.config)

    def quantizer_calls(self) -> list[tuple[RuleKind, str, AnyConfig | None]]:
        """Return the quantizer calls in order: enabled rules with resolved presets."""
        called = (rule for rule in self.rules if rule.enabled and not rule.keeps_off)
        return [(rule.kind, rule.match, self.config_of(rule)) for rule in called]

    def taken_from_plugins(self) -> list[tuple[str, PluginRole, str]]:
        """Return the plug-in references of enabled rules: rule id, kind and reference."""
        references: list[tuple[str, PluginRole, str]] = []
        for rule in (r for r in self.rules if r.enabled):
            config = self.config_of(rule)
            if rule.kind == "finder":
                references.append((rule.id, "finder", rule.match))
            if isinstance(config, PluginConfig):
                role: PluginRole = "quantizer" if rule.kind == "quantizer" else "config"
                references.append((rule.id, role, config.reference))
            elif isinstance(config, QuantConfig) and config.activation.observer.kind == "plugin":
                references.append((rule.id, "observer", config.activation.observer.plugin))
        return references

    @model_validator(mode="after")
    def _compressed_once(self) -> Project:
        names = [entry.module for entry in self.compressions]
        if len(set(names)) < len(names):
            raise ValueError("a module has more than one entry in compressions")
        return self

    def channels(self) -> dict[str, int]:
        """Return the number of channels that stay, by module."""
        return {c.module: c.channels for c in self.compressions if c.channels is not None}

    def clusters(self) -> dict[str, int]:
        """Return the number of distinct weights by module; "" is every other layer."""
        return {c.module: c.clusters for c in self.compressions if c.clusters is not None}

    def cpu_only_rules(self) -> list[tuple[RuleKind, str]]:
        """Return kind and match of the rules that keep parts off the NPU, sorted."""
        return sorted({(r.kind, r.match) for r in self.rules if r.enabled and r.keeps_off})


def name_of(config: str | Config) -> str:
    """Return the short name of what a rule assigns, without the plug-in's file."""
    if not isinstance(config, str):
        return config_label(config)
    return config.rpartition(":")[2] if is_reference(config) else config


def config_label(config: AnyConfig | None) -> str:
    """Return a short label: a preset's id, or the bit widths if no preset matches."""
    for preset in PRESETS_BY_ID.values():
        if preset.config == config:
            return preset.id
    assert config is not None
    if isinstance(config, FormatConfig | DynamicConfig | PluginConfig):
        return config.label
    width = "16" if config.activation.dtype == "int16" else "8"
    per = "" if config.weight.per_channel else " per tensor"
    observer = config.activation.observer
    seen = name_of(observer.plugin) if observer.kind == "plugin" else observer.kind
    return f"a{width}w{config.weight.bits}{per} ({seen})"
