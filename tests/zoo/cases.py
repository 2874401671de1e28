"""What is run: architectures, and networks of reported failures, each with what is expected."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
U55, U85 = "ethos-u55-128", "ethos-u85-256"
_EXECUTORCH, _AO = "https://github.com/pytorch/executorch", "https://github.com/pytorch/ao"
_TORCH = "https://github.com/pytorch/pytorch"


class Case(NamedTuple):
    """A network with a config and a device; ``link`` is where its failure was reported."""

    file: str
    network: str
    config: str
    device: str
    link: str = ""

    @property
    def id(self) -> str:
        """The key of its result."""
        return f"{self.file}:{self.network} {self.config} {self.device}"


def networks(file: str) -> list[str]:
    """Return the names of the networks in a file, without importing it."""
    tree = ast.parse((HERE / f"{file}.py").read_text(encoding="utf-8"))
    return [
        node.name for node in tree.body if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
    ]


IMAGE_FILES = ("segmentation_models", "detection_models", "vision_models")
ARCHITECTURES = tuple(
    Case(file, name, config, device)
    for file in (*IMAGE_FILES, "sequence_models", "transformers_models")
    for name in networks(file)
    for config, device in (("a8w8", U55), ("a16w8", U55), ("a8w8", U85), ("a16w8", U85))
)

# By network: the configs and devices, and where the failure was reported.
_REPORTED: dict[str, tuple[str, str]] = {
    "hardtanh_and_cat": ("8 55", f"{_EXECUTORCH}/issues/20486"),
    "relu_in_place": ("16 85", f"{_EXECUTORCH}/issues/16629"),
    "permute_and_reshape_to_five": ("8 85", f"{_EXECUTORCH}/issues/16739"),
    "nearest_upsample": ("8 55", f"{_EXECUTORCH}/issues/21585"),
    "transposed_with_stride_three": ("16 55", f"{_EXECUTORCH}/issues/17668"),
    "transposed_with_dilation": ("8 55", f"{_EXECUTORCH}/issues/17668"),
    "transposed_in_groups": ("8 55", f"{_EXECUTORCH}/issues/17668"),
    "weights_used_twice": ("8 55", f"{_EXECUTORCH}/issues/13022"),
    "borders_in_float": ("8 55", f"{_EXECUTORCH}/issues/3747"),
    "border_between_integers_and_float": ("8 85", f"{_EXECUTORCH}/issues/19364"),
    "addition": ("16 55", f"{_EXECUTORCH}/issues/13730"),
    "view_and_transpose": ("16 55", f"{_EXECUTORCH}/issues/13977"),
    "fully_connected": ("16 55", f"{_EXECUTORCH}/issues/13979"),
    "linear_over_rows": ("16 55", f"{_EXECUTORCH}/issues/13729"),
    "rescaled_product": ("16 55", f"{_EXECUTORCH}/issues/13980"),
    "leaky_relu": ("8 55", f"{_EXECUTORCH}/pull/9903"),
    "mean_over_many": ("8 85", f"{_EXECUTORCH}/issues/16779"),
    "linear_behind_recurrence": ("8 55", f"{_EXECUTORCH}/issues/12270"),
    "boxes_of_yolo": ("8 55", f"{_EXECUTORCH}/issues/14644"),
    "largest_of_a_row": ("8 55", f"{_EXECUTORCH}/pull/17372"),
    "choice_and_comparison": ("8 55", f"{_EXECUTORCH}/pull/20803"),
    "both_logic_operators": ("8 85", f"{_EXECUTORCH}/pull/21936"),
    "modulo_of_the_rank": ("8 55", f"{_EXECUTORCH}/pull/8566"),
    "attention_in_one": ("8 85", f"{_EXECUTORCH}/pull/7427"),
    "attention_written_out": ("8 55", f"{_EXECUTORCH}/pull/22796"),
    "mnist": ("8 55", f"{_EXECUTORCH}/issues/1161"),
    "whole_image_pool": ("8 55", f"{_EXECUTORCH}/issues/7645"),
    "faces": ("8 85", f"{_EXECUTORCH}/issues/7428"),
    "sigmoid_of_convolution": ("16 55", f"{_EXECUTORCH}/pull/13318"),
    "convolution_with_two_norms": ("8 55", f"{_AO}/pull/2795"),
    "linear_with_norm": ("8 55", f"{_AO}/issues/4463"),
    "gated_by_attention_of_convolutions": ("8 55", f"{_TORCH}/issues/126140"),
    "padding_by_name": ("8 55", f"{_EXECUTORCH}/pull/22241"),
    "mask_of_the_least_float": ("8 85", f"{_TORCH}/pull/113405"),
    "values_that_are_all_zero": ("8 55", f"{_TORCH}/issues/39239"),
    "values_that_hardly_differ": ("8 55", f"{_TORCH}/pull/122659"),
    "stacked_parts_and_factors": ("8 55", "https://github.com/google-ai-edge/litert-torch/issues/264"),
    "group_norm_without_factors": ("8 55", f"{_EXECUTORCH}/issues/16090"),
    "group_norm_behind_convolution": ("8 85", f"{_EXECUTORCH}/pull/10198"),
    "norm_of_the_present_batch": ("8 85", f"{_EXECUTORCH}/issues/17241"),
    "joined_with_itself": ("8 55", f"{_TORCH}/issues/129038"),
    "joined_by_another_name": ("8 55", f"{_EXECUTORCH}/pull/20600"),
    "recurrence_alone": ("8 55", f"{_EXECUTORCH}/issues/10104"),
    "even_kernel_and_same_size": ("8 55", f"{_EXECUTORCH}/issues/20517"),
    "block_of_a_vision_transformer": ("8 85", f"{_EXECUTORCH}/issues/16426"),
    "attention_with_guards": ("8 55", f"{_EXECUTORCH}/issues/16248"),
    "cumulative_sum": ("8 55", f"{_EXECUTORCH}/pull/13457"),
    "pixels_shuffled_and_back": ("8 85", f"{_EXECUTORCH}/pull/14626"),
    "filled_in_place": ("8 85", f"{_EXECUTORCH}/pull/16272"),
    "bilinear_upsample": ("8 85", f"{_EXECUTORCH}/pull/10349"),
    "written_by_number": ("8 85", f"{_EXECUTORCH}/pull/16697"),
    "pool_that_leaves_rows_over": ("8 55", f"{_EXECUTORCH}/pull/10972"),
    "pool_that_rounds_up": ("8 55", f"{_EXECUTORCH}/pull/11819"),
    "mean_over_a_wide_image": ("8 55", f"{_EXECUTORCH}/pull/11141"),
    "pool_that_becomes_a_mean": ("8 55", f"{_EXECUTORCH}/pull/15558"),
    "softmax_in_sixteen_bits": ("16 85", f"{_EXECUTORCH}/pull/21286"),
    "norm_over_three_dimensions": ("16 85", f"{_EXECUTORCH}/pull/19242"),
}
# Found in use, with no report known.
_FOUND = {
    "prelu": "8 55",
    "norm_alone": "8 55",
    "norm_behind_a_pool": "8 55",
    "softmax_alone": "16 55",
    "smallest_of_a_row": "8 55",
    "rows_by_number": "8 55",
    "remainder_and_floor": "8 55",
    "class_numbers": "8 55",
    "many_strides": "8 55",
    "expression_of_a_parameter": "8 55",
    "positions_with_logarithms": "8 55",
    "random_slope": "8 55",
    "mean_over_steps": "8 55",
    "norm_of_each_channel": "8 55",
    "logarithms_of_sums": "8 55",
    "rolled_windows": "8 55",
}


def _case(network: str, on: str, link: str) -> Case:
    bits, device = on.split()
    return Case("tracker_networks", network, f"a{bits}w8", {"55": U55, "85": U85}[device], link)


FAILURES = tuple(
    _case(network, on, link)
    for network, (on, link) in (*_REPORTED.items(), *((name, (on, "")) for name, on in _FOUND.items()))
)
