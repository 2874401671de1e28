"""What is right for each network that was once delivered as right and computed something else."""

from __future__ import annotations

from dataclasses import dataclass, replace

U55, U65, U85 = "ethos-u55-128", "ethos-u65-256", "ethos-u85-256"
ENOUGH = {"a8w8": 24.0, "a16w8": 35.0}


@dataclass(frozen=True)
class Case:
    """A network on a device, and what is right.

    Attributes:
        network: Of ``case_networks.py``, or of the file that is named.
        config: Preset of the whole model.
        least: SQNR of the weakest output of the delivered program against eager PyTorch, on
            samples that calibration did not see [dB]; by default what a config gives.
        code: Of the refusal, if the network is refused.
        on_the_npu: Whether nothing but the outer quantization is on the CPU.
    """

    network: str
    target: str = U55
    config: str = "a8w8"
    least: float | None = None
    code: str = ""
    on_the_npu: bool = False

    @property
    def file(self) -> str:
        """The file of the network."""
        return f"{self.network.rpartition('.')[0] or 'case_networks'}.py"

    @property
    def name(self) -> str:
        """The name of the network in its file."""
        return self.network.rpartition(".")[2]

    @property
    def samples(self) -> str:
        """The name of the calibration samples in that file."""
        return f"samples_of_{self.name}" if self.file == "case_networks.py" else "samples"

    @property
    def enough(self) -> float:
        """The least SQNR [dB]."""
        return ENOUGH[self.config] if self.least is None else self.least

    @property
    def elsewhere(self) -> Case:
        """The same on another device."""
        return replace(self, target=U85 if self.target == U55 else U65)


_WRITTEN = (
    "scaled_slice",
    "copied_slice",
    "border",
    "seen_by_an_older_view",
    "added_to_a_view",
    "turned",
    "half_activated",
    "gated",
    "filled_in_a_loop",
    "shifted_in_time",
    "boxes",
    "channels_of_the_input",
    "pasted",
    "pasted_into_zeros",
    "written_ramp",
    "interleaved",
    "dropped_and_activated",
    "by_mask",
    "by_list",
    "largest_of_rows",
    "every_third_channel",
    "added_to_an_alias",
    "part_of_a_copy",
)
WRITES = tuple(Case(f"written_networks.{name}", target=U85) for name in _WRITTEN)
CASES = (
    Case("bn_bn", least=35),
    Case("bn_bn", U85, "a16w8", least=48),
    Case("train_bn_without_affine", least=28),
    Case("convt_groups", least=28),
    Case("convt_groups", U85, "a16w8", least=45),
    Case("transposed_groups_norm"),
    Case("transposed_depthwise_norm"),
    Case("cpu_pool_batch", least=28),
    Case("unbatched_pool", least=30),
    Case("shared_depthwise"),
    Case("shared_depthwise_branches"),
    Case("dscnn"),
    Case("norm_eps"),
    Case("near1d", least=25.5),
    Case("index_list", least=30),
    Case("even_conv1d"),
    Case("bilinear_to_size"),
    Case("fold_overlap"),
    Case("circular"),
    Case("var_without_keepdim", U85, "a16w8"),
    Case("sigmoid_symmetric", on_the_npu=True),
    Case("ramp"),
    Case("limits"),
    Case("limits", U85, "a16w8"),
    Case("maskrows", U85, "a16w8"),
    Case("masked_bert"),
    Case("headroom16", U85, "a16w8", least=42),
    Case("adaptive_norm", U85, "a16w8", least=45),
    Case("dit_products", U85, "a16w8", least=42),
    Case("dit_norms", U85, "a16w8", least=38),
    Case("timed_norm", U85, "a16w8"),
    Case("anchor_later"),
    Case("min_then_eq"),
    Case("relu_branch_not_fusable"),
    Case("relu_permute_residual"),
    Case("channels_last_input", on_the_npu=True),
    Case("nhwc_bytes_in", on_the_npu=True),
    Case("named_outputs"),
    Case("anchors_made_in_forward"),
)
REFUSED = (
    Case("half", code="model-half-precision"),
    Case("number_from_data", code="number-from-data"),
    Case("size_from_data", code="size-from-data"),
)
