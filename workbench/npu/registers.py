"""The settings of the NPU, and what an operation reads out of them.

Source of the layouts: Vela 5.1.0 (Apache-2.0), ``ethos_u65_interface.hpp`` for U55 and U65,
``ethos_u85_interface.hpp``. Settings hold until they are set again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from workbench.npu.arithmetic import Rounding
from workbench.npu.faults import Fault, ModeFault

Family = Literal["ethos-u55", "ethos-u65", "ethos-u85"]
Side = Literal["IFM", "IFM2", "OFM"]

# Storage of a feature map on the U85 (activation_storage).
TILES_2X2, TILES_3X1, CHAINED, NO_STORAGE = 0, 1, 2, 3

_ROUNDINGS_U55 = (Rounding.DOUBLE, Rounding.TRUNCATE, Rounding.NATURAL)
_ROUNDINGS_U85 = (
    Rounding.DOUBLE,
    Rounding.NATURAL,
    Rounding.DOUBLE_ASYMMETRIC,
    Rounding.SYMMETRIC,
    Rounding.TRUNCATE,
    Rounding.LOWER,
)
_BRICKS = 1
_DTYPES: dict[tuple[bool, int], np.dtype[np.integer[Any]]] = {
    (signed, bits): np.dtype(f"{'i' if signed else 'u'}{bits // 8}")
    for signed in (False, True)
    for bits in (8, 16, 32, 64)
}


@dataclass(frozen=True, slots=True)
class Device:
    """Which NPU a program is for, and what follows from it.

    Attributes:
        cores: Streams of weights that the cores read at once.
        ofm_ublock: Depth of the smallest block of the OFM (U55, U65).
        table_is_shared: Accumulators may take the memory of the tables (U55-32 and U55-64).
    """

    family: Family
    macs: int
    cores: int = 1
    ofm_ublock: int = 8
    table_is_shared: bool = False

    @property
    def u85(self) -> bool:
        """Whether it is an Ethos-U85."""
        return self.family == "ethos-u85"

    @property
    def most_dependent_blocks(self) -> int:
        """The largest block dependency (Vela 5.1.0, ``MaxBlockdep``)."""
        return 7 if self.u85 else 3

    def __str__(self) -> str:
        return f"{self.family}-{self.macs}"


_DEVICES = (
    Device("ethos-u55", 32, ofm_ublock=4, table_is_shared=True),
    Device("ethos-u55", 64, table_is_shared=True),
    Device("ethos-u55", 128),
    Device("ethos-u55", 256),
    Device("ethos-u65", 256),
    Device("ethos-u65", 512, cores=2),
    Device("ethos-u85", 128),
    Device("ethos-u85", 256),
    Device("ethos-u85", 512, cores=2),
    Device("ethos-u85", 1024, cores=4),
    Device("ethos-u85", 2048, cores=4),
)


def device(family: str, macs: int) -> Device:
    """Return the device of a command stream's configuration.

    Raises:
        ModeFault: there is no such NPU.
    """
    for known in _DEVICES:
        if (known.family, known.macs) == (family, macs):
            return known
    raise ModeFault(
        f"The commands are for {family or 'an unknown NPU'} with {macs} MACs, which is not known.",
        "Known are Ethos-U55, U65 and U85 as Vela 5.1.0 compiles for them.",
    )


@dataclass(frozen=True, slots=True)
class FeatureMap:
    """How the elements of a tensor lie in memory; addresses and strides in bytes."""

    side: Side
    region: int
    dtype: np.dtype[np.integer[Any]]
    bricks: bool
    zero_point: int
    bases: tuple[int, int, int, int]
    height0: int
    height1: int
    width0: int
    strides: tuple[int, int, int]
    storage: int

    @property
    def bits(self) -> int:
        """Width of an element [bits]."""
        return 8 * self.dtype.itemsize

    @property
    def signed(self) -> bool:
        """Whether its elements have a sign."""
        return self.dtype.kind == "i"

    @property
    def span(self) -> tuple[int, int]:
        """The least and the largest value of an element minus the zero point."""
        least = -(1 << self.bits - 1) if self.signed else 0
        return least - self.zero_point, least + (1 << self.bits) - 1 - self.zero_point


@dataclass(frozen=True, slots=True)
class Kernel:
    """Taps, steps and padding of a window."""

    height: int
    width: int
    stride_y: int
    stride_x: int
    dilation_y: int
    dilation_x: int
    part_kernel: bool
    top: int
    left: int
    bottom: int
    right: int

    @property
    def padded(self) -> bool:
        """Whether there is any padding."""
        return bool(self.top or self.left or self.bottom or self.right)

    def covered(self, rows: int, columns: int) -> tuple[int, int]:
        """Return height and width that an OFM of this size needs, padding included."""
        return (
            (rows - 1) * self.stride_y + (self.height - 1) * self.dilation_y + 1,
            (columns - 1) * self.stride_x + (self.width - 1) * self.dilation_x + 1,
        )


@dataclass(frozen=True, slots=True)
class Scale:
    """A multiplication by ``scale / 2**shift`` and how it is rounded."""

    scale: int
    shift: int
    rounding: Rounding
    double_shift: int = 0


class Registers:
    """All settings, by the names that Arm's tools write."""

    def __init__(self, target: Device) -> None:
        self.device = target
        self._values: dict[str, int] = {}

    def set(self, name: str, value: int) -> None:
        """Keep a setting; of a command with payload, the parameter stands above 32 bits."""
        self._values[name] = value

    def __getitem__(self, name: str) -> int:
        try:
            return self._values[name]
        except KeyError:
            raise Fault(f"NPU_SET_{name} was not given before the operation.") from None

    def get(self, name: str, default: int = 0) -> int:
        """Return a setting that stands at a value of its own before it is given."""
        return self._values.get(name, default)

    def address(self, name: str) -> int:
        """Return an address of 40 bits."""
        return self[name] & (1 << 40) - 1

    def stride(self, name: str) -> int:
        """Return a distance of 40 bits with a sign."""
        value = self.address(name)
        return value - (1 << 40) if value >> 39 else value

    def region(self, name: str) -> int:
        """Return the number of a memory region."""
        return self[f"{name}_REGION"] & 7

    def word(self, name: str, *, signed: bool) -> int:
        """Return a word of 16 bits."""
        value = self[name] & 0xFFFF
        return value - 0x10000 if signed and value & 0x8000 else value

    def feature_map(self, side: Side) -> FeatureMap:
        """Return where and how a tensor lies.

        Raises:
            Fault: a setting is missing, or its format is none.
        """
        precision = self[f"{side}_PRECISION"]
        shift = 1 if side == "OFM" else 2
        signed, layout = bool(precision & 1), precision >> 6 & 3
        if layout > _BRICKS:
            raise ModeFault(f"{side}_PRECISION names the format {layout}, which does not exist.")
        storage = precision >> 14 & 3 if self.device.u85 else TILES_2X2
        placed = storage in {TILES_2X2, TILES_3X1}
        return FeatureMap(
            side=side,
            region=self.region(side) if storage != NO_STORAGE else 0,
            dtype=_DTYPES[signed, 8 << (precision >> shift & 3)],
            bricks=layout == _BRICKS,
            zero_point=self.word(f"{side}_ZERO_POINT", signed=signed),
            bases=self._bases(side) if placed else (0, 0, 0, 0),
            height0=self[f"{side}_HEIGHT0_M1"] + 1 if placed else 0,
            height1=self[f"{side}_HEIGHT1_M1"] + 1 if placed else 0,
            width0=self[f"{side}_WIDTH0_M1"] + 1 if placed else 0,
            strides=self._strides(side) if placed else (0, 0, 0),
            storage=storage,
        )

    def _bases(self, side: str) -> tuple[int, int, int, int]:
        first, second, third, fourth = (self.address(f"{side}_BASE{tile}") for tile in range(4))
        return first, second, third, fourth

    def _strides(self, side: str) -> tuple[int, int, int]:
        y, x, c = (self.stride(f"{side}_STRIDE_{axis}") for axis in "YXC")
        return y, x, c

    @property
    def ofm_shape(self) -> tuple[int, int, int]:
        """Height, width and depth of the OFM."""
        height, width, depth = (self[f"OFM_{size}_M1"] + 1 for size in ("HEIGHT", "WIDTH", "DEPTH"))
        return height, width, depth

    @property
    def kernel(self) -> Kernel:
        """The window; sizes in the registers are those of the dilated kernel."""
        bits = self["KERNEL_STRIDE"]
        dilation_x, dilation_y = 1 + (bits >> 3 & 1), 1 + (bits >> 4 & 1)
        return Kernel(
            height=self["KERNEL_HEIGHT_M1"] // dilation_y + 1,
            width=self["KERNEL_WIDTH_M1"] // dilation_x + 1,
            stride_y=1 + (bits >> 1 & 1) + 2 * (bits >> 9 & 1),
            stride_x=1 + (bits & 1) + 2 * (bits >> 6 & 1),
            dilation_y=dilation_y,
            dilation_x=dilation_x,
            part_kernel=bool(bits >> 2 & 1),
            top=self["IFM_PAD_TOP"] & 0x7F,
            left=self["IFM_PAD_LEFT"] & 0x7F,
            bottom=self["IFM_PAD_BOTTOM"] & 0xFF,
            right=self["IFM_PAD_RIGHT"] & 0xFF,
        )

    @property
    def ofm_scale(self) -> Scale:
        """The scale of the output stage."""
        value = self["OFM_SCALE"]
        parameter = value >> 32
        if self.device.u85:
            mode = parameter >> 13 & 7
            if mode >= len(_ROUNDINGS_U85):
                raise ModeFault(f"OFM_SCALE names the rounding mode {mode}, which does not exist.")
            scale = value & 0x7FFFFFFF
            return Scale(scale, parameter & 63, _ROUNDINGS_U85[mode], parameter >> 6 & 31)
        return Scale(value & 0xFFFFFFFF, parameter & 63, self.rounding("OFM"))

    @property
    def ofm_rounding(self) -> tuple[Rounding, int]:
        """Rounding of the output stage and the shift of double rounding, for scales of channels."""
        if self.device.u85 and "OFM_SCALE" not in self._values:
            return Rounding.NATURAL, 0
        if self.device.u85:
            scale = self.ofm_scale
            return scale.rounding, scale.double_shift
        return self.rounding("OFM"), 0

    def rounding(self, side: Side) -> Rounding:
        """Return the rounding of a feature map (U55, U65).

        Raises:
            Fault: its mode does not exist.
        """
        mode = self[f"{side}_PRECISION"] >> 14 & 3
        if mode >= len(_ROUNDINGS_U55):
            raise ModeFault(f"{side}_PRECISION names the rounding mode {mode}, which does not exist.")
        return _ROUNDINGS_U55[mode]

    def operand_scale(self, side: Literal["IFM", "IFM2"]) -> Scale:
        """Return the scale of an operand (U85)."""
        value = self[f"{side}_SCALE"]
        parameter = value >> 32
        rounding = Rounding.NATURAL if parameter >> 13 & 1 else Rounding.DOUBLE
        return Scale(value & 0x7FFFFFFF, parameter & 63, rounding, parameter >> 6 & 31)
