"""A project's rules as MASE's ``pass_args``, where there are equal ones."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from workbench.errors import ErrorInfo, Place, WorkbenchError, failure
from workbench.project.format_config import FormatConfig
from workbench.project.rules import by_strength
from workbench.targets.number_formats import ROLES, read, spec_of
from workbench.targets.number_formats.operators import OPERATORS
from workbench.targets.number_formats.parameters import PREFIXES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from workbench.project.model import Project, Rule
    from workbench.targets.number_formats import SchemeSpec

# What MASE asks for of each operand; there are no defaults there.
_KEYS: dict[str, tuple[str, ...]] = {
    "integer": ("width", "frac_width"),
    "fixed": ("width", "frac_width"),
    "logicnets": ("width", "frac_width"),
    "binary": ("width", "stochastic", "bipolar"),
    "binary_residual": ("width", "stochastic", "bipolar"),
    "ternary": ("width", "scaling_factor", "mean", "median", "max"),
    "minifloat_ieee": ("width", "exponent_width", "exponent_bias"),
    "minifloat_denorm": ("width", "exponent_width", "exponent_bias"),
    "log": ("width", "exponent_bias"),
    "block_fp": ("width", "exponent_width", "exponent_bias", "block_size"),
    "block_minifloat": ("width", "exponent_width", "exponent_bias_width", "block_size"),
    "block_log": ("width", "exponent_bias_width", "block_size"),
    "lutnet": ("width", "frac_width", "binarization_level", "input_expanded", "k"),
    "mxint_hardware": ("width", "exponent_width", "parallelism"),
}
_MORE: dict[str, tuple[str, ...]] = {
    "binary_residual": ("weight_binary_training", "data_in_residual_sign", "data_in_levels"),
    "lutnet": ("data_in_levels", "data_in_dim", "weight_in_dim", "bias_in_dim"),
}
_OUT = "data_out_"
_WITH_RESULT = frozenset({"fixed", "logicnets"})


def pass_args_of(project: Project) -> dict[str, Any]:
    """Return pass_args that assign what the project's rules do: by type, else by pattern.

    Raises:
        WorkbenchError: rules that MASE has no equal of, all at once.
    """
    rules = [rule for rule in by_strength(project.rules) if not rule.keeps_off]
    specific = [rule for rule in rules if rule.kind != "global"]
    problems: list[ErrorInfo] = []
    default = next((rule for rule in rules if rule.kind == "global"), None)
    args: dict[str, Any] = {
        "by": "type" if all(rule.kind == "node_target" for rule in specific) else "regex_name",
        "default": _entry(project, default, problems),
    }
    entries = _by_type if args["by"] == "type" else _by_pattern
    args.update(entries(project, specific, problems))
    if problems:
        raise WorkbenchError(problems)
    return args


def _by_type(project: Project, rules: Sequence[Rule], problems: list[ErrorInfo]) -> dict[str, Any]:
    """Return an entry for each operation; both its operators must have the same config."""
    found: dict[str, Any] = {}
    for rule in rules:
        operation = OPERATORS.get(rule.match)
        if operation is None:
            problems.append(_problem(rule, f"{rule.match} is no operation of MASE's table."))
            continue
        entry = _entry(project, rule, problems)
        if found.setdefault(operation, entry) != entry:
            words = f"MASE cannot tell {rule.match} from the other operators of {operation}."
            problems.append(_problem(rule, words))
    return found


def _by_pattern(
    project: Project, rules: Sequence[Rule], problems: list[ErrorInfo]
) -> dict[str, Any]:
    """Return an entry for each rule, strongest first: the first that fits wins in MASE."""
    found: dict[str, Any] = {}
    for rule in rules:
        match rule.kind:
            case "pattern":
                key = rule.match
            case "node_name":
                key = re.escape(rule.match)
            case "module_name":
                key = f"{re.escape(rule.match.replace('.', '_'))}(_.*)?"
            case _:
                words = f"MASE has no {rule.kind} beside names: it matches types or names."
                problems.append(_problem(rule, words))
                continue
        found.setdefault(key, _entry(project, rule, problems))
    return found


def _entry(project: Project, rule: Rule | None, problems: list[ErrorInfo]) -> dict[str, Any]:
    config = project.config_of(rule) if rule is not None else None
    if rule is None or config is None:
        return {"config": {"name": None}}
    if not isinstance(config, FormatConfig) or config.scheme not in _KEYS:
        label = config.scheme if isinstance(config, FormatConfig) else project.label_of(rule)
        problems.append(_problem(rule, f"MASE's quantize pass has no {label}."))
        return {}
    try:
        return {"config": {"name": config.scheme, **_parameters(config)}}
    except WorkbenchError as error:
        problems += [_problem(rule, info.message) for info in error.infos]
        return {}


def _parameters(config: FormatConfig) -> dict[str, Any]:
    """Return every key that MASE asks for; what stands for all operands is said of each.

    Raises:
        WorkbenchError: parameters are missing, or MASE's pass would drop one that matters.
    """
    spec = spec_of(config.scheme)
    found: dict[str, Any] = {}
    names = {alias: p.name for p in spec.parameters for alias in (p.name, *p.aliases)}
    more = _MORE.get(spec.name, ())
    for role in ROLES:
        given = read(spec.name, spec.parameters, config.parameters, role)
        for name in _KEYS[spec.name]:
            value = given[name]
            found[f"{PREFIXES[role]}{name}"] = list(value) if isinstance(value, tuple) else value
        own = {
            name: names[name.removeprefix(PREFIXES[role])]
            for name in more if name.startswith(PREFIXES[role])
        }  # fmt: skip
        found |= {name: given[bare] for name, bare in own.items()}
        _refuse_lost(spec, given, {*_KEYS[spec.name], *own.values(), *_elsewhere(spec, more)})
    return {**found, **_outputs(config)}


def _elsewhere(spec: SchemeSpec, more: Sequence[str]) -> set[str]:
    """Return the parameters that only some operand has a key for."""
    ends = tuple(p.name for p in spec.parameters)
    return {end for end in ends if any(name.endswith(end) for name in more)}


def _refuse_lost(spec: SchemeSpec, given: Mapping[str, Any], told: set[str]) -> None:
    for parameter in spec.parameters:
        if parameter.name not in told and given[parameter.name] != parameter.default:
            raise failure(f"MASE's quantize pass drops {parameter.name!r} of {spec.name}.")


def _outputs(config: FormatConfig) -> dict[str, Any]:
    outputs = {k: v for k, v in config.parameters.items() if k.startswith(_OUT)}
    if outputs and config.scheme not in _WITH_RESULT:
        raise failure(f"MASE's quantize pass fails for {_OUT}* with {config.scheme}; fixed has it.")
    if config.scheme == "logicnets" and not outputs:
        raise failure(f"MASE's logicnets needs {_OUT}width and {_OUT}frac_width.")
    return outputs


def _problem(rule: Rule, message: str) -> ErrorInfo:
    hint = "Change the rule, or switch it off while the pass_args are written."
    return ErrorInfo(message=message, hint=hint, where=Place(kind="rule", id=rule.id))
