"""The 8-bit formats of KV pages by their bits: int8; e4m3, which has 1 sign, 4 exponent (bias 7), 3 mantissa bits, no infinities,
and NaN as 0x7f.

The OCP 8-bit floating point specification, https://www.opencompute.org/documents/ocp-8-bit-floating-point-specification-ofp8-revision-1-0-2023-12-01-pdf-1.
Triton's own fp8 type compiles for some targets only, so pages are uint8 and these functions are the same on every target and in
the interpreter. Page layouts are in `octavo_kernels/page_layout.py`.
"""

import triton
import triton.language as tl

E4M3_MAX = tl.constexpr(448.0)
INT8_MAX = tl.constexpr(127.0)
# 1.5 · 2²³: adding it leaves an fp32's nearest integer, ties to even, in its low bits.
ROUNDER = tl.constexpr(12582912.0)
# A token's scale is a normal fp16: below this floor its values lose bits only under 2⁻²⁰.
SCALE_FLOOR = tl.constexpr(2.0**-14)
SCALE_CEILING = tl.constexpr(65504.0)


@triton.jit
def decode_e4m3(code: tl.tensor) -> tl.tensor:
    """uint8 → fp32, exact. (NaN's code reads as ±480: writers never store it.)

    Shifted by 7, exponent and mantissa stand where fp16 has them, whose bias is 8 more: the value is 2⁸ times too small, and a
    subnormal e4m3 is a subnormal fp16, which the conversion to fp32 keeps.
    """
    wide = code.to(tl.uint16)
    half = ((wide & 0x80) << 8) | ((wide & 0x7F) << 7)
    return half.to(tl.float16, bitcast=True).to(tl.float32) * 256.0


@triton.jit
def encode_e4m3(x: tl.tensor) -> tl.tensor:
    """fp32 → uint8, to the nearest, ties to even; beyond ±448 it saturates, and NaN becomes 0."""
    x = tl.where(x == x, x, 0.0)
    sign = (x.to(tl.uint32, bitcast=True) >> 24) & 0x80
    magnitude = tl.minimum(tl.abs(x), E4M3_MAX)
    bits = magnitude.to(tl.uint32, bitcast=True)
    # Normal: round away 20 of 23 mantissa bits (a carry goes into the exponent, as it should), then change the bias 127 to 7.
    normal = ((bits + 0x7FFFF + ((bits >> 20) & 1)) >> 20) - (120 << 3)
    # Below 2⁻⁶ codes are multiples of 2⁻⁹, which is the last bit of an fp32 at 2¹⁴: the addition rounds.
    shifted = magnitude + 16384.0
    subnormal = shifted.to(tl.uint32, bitcast=True) & 0xF
    code = tl.where(magnitude < 0.015625, subnormal, normal)
    return (code | sign).to(tl.uint8)


@triton.jit
def decode_int8(code: tl.tensor) -> tl.tensor:
    """uint8 → fp32."""
    return code.to(tl.int8, bitcast=True).to(tl.float32)


@triton.jit
def encode_int8(x: tl.tensor) -> tl.tensor:
    """fp32 → uint8, to the nearest, ties to even; beyond ±127 it saturates, and NaN becomes 0."""
    x = tl.where(x == x, x, 0.0)
    bounded = tl.minimum(tl.maximum(x, -INT8_MAX), INT8_MAX)
    return ((bounded + ROUNDER).to(tl.uint32, bitcast=True) & 0xFF).to(tl.uint8)


@triton.jit
def token_scales(x: tl.tensor, greatest_code: tl.constexpr) -> tl.tensor:
    """fp32 `[heads, D]` → fp16 `[heads]`: the largest finite magnitude becomes `greatest_code`. Finite, positive whatever x is."""
    x = tl.where(x == x, tl.abs(x), 0.0)
    largest = tl.max(x, axis=1)
    return tl.minimum(tl.maximum(largest * (1.0 / greatest_code), SCALE_FLOOR), SCALE_CEILING).to(tl.float16)
