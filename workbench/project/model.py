"""The project: one frozen value that says all a user has decided."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, JsonValue

from workbench.project.configs import (
    PRESETS_BY_ID,
    AnyConfig,
    Config,
    DynamicConfig,
    FixedRange,
    FormatConfig,
    ImproverId,
    PluginConfig,
    PluginRole,
    QuantConfig,
    RangeMethod,
    is_reference,
)
from workbench.project.frozen import Frozen

QUERIES_AT_MOST = 8
PROJECT_VERSION = 7
PROJECT_SUFFIX = ".qwb"

RuleKind = Literal[
    "global", "module_type", "module_name", "node_target", "node_name", "pattern", "io",
    "finder", "quantizer",
]  # fmt: skip

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
# Rules whose nodes only code of a plug-in knows.
PLUGIN_KINDS: tuple[RuleKind, ...] = ("finder", "quantizer")


# What the partitioner of ExecuTorch calls the like; nodes and operators go by the float program.
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


class ModelSource(Frozen):
    """Where the float model comes from.

    ``spec`` is ``FILE.pt2``, ``FILE.py:callable`` or ``package.module:callable``; files are
    relative to the project. ``input_shapes`` or ``inputs`` (an .npz) give example inputs where the
    callable returns none; ``weights`` is a .safetensors file or a state dict saved by torch.
    """

    spec: str = Field(min_length=1)
    input_shapes: tuple[tuple[int, ...], ...] = ()
    inputs: str | None = None
    weights: str | None = None
    strict_export: bool = False


class Preprocess(Frozen):
    """How a picture becomes a tensor: size [height, width], then (value / 255 - mean) / std."""

    size: tuple[int, int]
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)


class Tokenization(Frozen):
    """How a text becomes sequences of tokens, each of which a decoder takes step by step.

    ``tokenizer`` is a ``tokenizer.json`` of the package tokenizers, or a callable (text -> ids);
    without one every byte is a token. ``length`` is the number of steps after which what the
    decoder remembers is put back: at most the context that its caches hold.
    """

    tokenizer: str = ""
    length: int = Field(default=64, ge=1)


class DataSource(Frozen):
    """Samples, streamed: arrays, pictures, ``FILE.py:callable``, or ``FILE.txt`` for decoders."""

    spec: str = Field(min_length=1)
    preprocess: Preprocess | None = None
    tokens: Tokenization | None = None
    limit: int | None = Field(default=None, ge=1)
    labels: str | None = None
    dropped: tuple[int, ...] = ()


class Evaluation(Frozen):
    """What quality is measured on; without data the calibration set serves."""

    data: DataSource | None = None
    metric: str | None = None
    limit: int = Field(default=256, ge=1)


class TargetChoice(Frozen):
    """The device: an id from the target table and that target's own options."""

    id: str = Field(min_length=1)
    options: dict[str, JsonValue] = Field(default_factory=dict)


class Rule(Frozen):
    """One assignment of precision; ``config`` is a preset's id, a plug-in's, or one of its own.

    A ``pattern`` is a regular expression that fits the whole name of a node, or of the module it
    is called in, with underscores or dots. A ``finder`` is a plug-in's, named by ``match``; a
    ``quantizer`` is one too, named by ``config``, and decides nodes and precision by itself.
    """

    id: str = Field(min_length=1)
    kind: RuleKind
    match: str = ""
    config: str | Config
    enabled: bool = True

    @property
    def keeps_off(self) -> bool:
        """Whether it keeps what it matches off the NPU, and says nothing of precision."""
        preset = PRESETS_BY_ID.get(self.config) if isinstance(self.config, str) else None
        return preset is not None and preset.places


class Verification(Frozen):
    """How many samples the integer program is compared on."""

    samples: int = Field(default=16, ge=1)


class Bookmark(Frozen):
    """A named place in the drawing of a level.

    ``expanded`` are the open groups, ``anchor`` is the item next to the middle of the window and
    ``dx`` and ``dy`` are the way from its corner to the middle [px of the drawing], so that the
    place is found again after the layout has changed.
    """

    name: str = Field(min_length=1)
    level: str
    shape: Literal["modules", "folded", "flat"] = "modules"
    expanded: tuple[str, ...] = ()
    scale: float = Field(gt=0)
    anchor: str = ""
    dx: float = 0.0
    dy: float = 0.0


class SavedQuery(Frozen):
    """A search whose operations are coloured."""

    text: str = Field(min_length=1)
    shown: bool = True


class GraphNotes(Frozen):
    """All that is kept, in the order in which it was."""

    bookmarks: tuple[Bookmark, ...] = ()
    queries: tuple[SavedQuery, ...] = Field(default=(), max_length=QUERIES_AT_MOST)


class Project(Frozen):
    """Everything that decides a result, and a few notes that do not.

    ``rules`` stand in the order in which the quantizer is called: general first, and the last
    one that matches wins. ``presets`` are the user's own named configs; ``ranges`` stand in the
    place of what calibration found for single tensors, ``range_methods`` say how others are taken
    from what it saw: numbers beat methods, and the narrowest method wins. ``improvers`` change
    the float weights before they are quantized; ``trained_weights``, a .safetensors file that
    training left, stand in the place of those and of what improvers would do to them.
    ``training_function`` is ``FILE.py:callable``, the user's own. ``plugins`` are files,
    ``FILE.py``, whose configs, observers, finders and quantizers are offered. ``board`` is a
    board's id, or the path of its file: the target was set for it, and the program must fit it.
    """

    version: int = PROJECT_VERSION
    name: str = Field(min_length=1)
    model: ModelSource
    calibration: DataSource | None = None
    evaluation: Evaluation = Evaluation()
    target: TargetChoice
    board: str = ""
    rules: tuple[Rule, ...] = ()
    presets: dict[str, Config] = Field(default_factory=dict)
    ranges: tuple[FixedRange, ...] = ()
    range_methods: tuple[RangeMethod, ...] = ()
    improvers: tuple[ImproverId, ...] = ()
    training_function: str | None = None
    trained_weights: str | None = None
    plugins: tuple[str, ...] = ()
    verification: Verification = Verification()
    notes: str = ""
    graph: GraphNotes = GraphNotes()

    def config_of(self, rule: Rule) -> AnyConfig | None:
        """Return the config that ``rule`` assigns; None is float.

        Raises:
            KeyError: the rule names a preset that neither the program nor the project has.
        """
        if not isinstance(rule.config, str):
            return rule.config
        if rule.config in self.presets:
            return self.presets[rule.config]
        if is_reference(rule.config):
            return PluginConfig(reference=rule.config)
        return PRESETS_BY_ID[rule.config].config

    def fixed_ranges(self) -> dict[str, tuple[float, float]]:
        """Return minimum and maximum of every tensor whose range is fixed."""
        return {fixed.tensor: (fixed.minimum, fixed.maximum) for fixed in self.ranges}

    def label_of(self, rule: Rule) -> str:
        """Return the short name shown for the rule's config."""
        if isinstance(rule.config, str) and rule.config in self.presets:
            return rule.config
        return name_of(rule.config)

    def quantizer_calls(self) -> list[tuple[RuleKind, str, AnyConfig | None]]:
        """Return what will be called, in order: enabled rules only, presets resolved."""
        called = (rule for rule in self.rules if rule.enabled and not rule.keeps_off)
        return [(rule.kind, rule.match, self.config_of(rule)) for rule in called]

    def taken_from_plugins(self) -> list[tuple[str, PluginRole, str]]:
        """Return what enabled rules take from plug-ins: the rule's id, the kind, the reference."""
        found: list[tuple[str, PluginRole, str]] = []
        for rule in (r for r in self.rules if r.enabled):
            config = self.config_of(rule)
            if rule.kind == "finder":
                found.append((rule.id, "finder", rule.match))
            if isinstance(config, PluginConfig):
                role: PluginRole = "quantizer" if rule.kind == "quantizer" else "config"
                found.append((rule.id, role, config.reference))
            elif isinstance(config, QuantConfig) and config.activation.observer.kind == "plugin":
                found.append((rule.id, "observer", config.activation.observer.plugin))
        return found

    def kept_off(self) -> list[tuple[RuleKind, str]]:
        """Return what rules keep off the NPU: kind and match, sorted."""
        return sorted({(r.kind, r.match) for r in self.rules if r.enabled and r.keeps_off})


def name_of(config: str | Config) -> str:
    """Return the short name of what a rule assigns, without the file of a plug-in."""
    if not isinstance(config, str):
        return config_label(config)
    return config.rpartition(":")[2] if is_reference(config) else config


def config_label(config: AnyConfig | None) -> str:
    """Return a short name for a config: a preset's id, or its widths when it is nobody's preset."""
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
