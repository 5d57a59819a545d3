"""Hand-chosen instructions on which QEMU and Unicorn must agree (`test_oracle`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from .operands import Index


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.strip().splitlines()]


REGISTER_FORMS: Final = _lines(
    """
    add x0, x1, x2
    add w3, w4, w5, lsl #31
    add x6, x7, w8, sxtb #3
    add x0, sp, w1, uxtw #2
    add sp, sp, #0xfff, lsl #12
    add w9, w10, #0x7ff
    adds x11, x12, x13, asr #63
    adds w14, w15, w16, uxth
    adds xzr, x17, #1
    sub x18, x19, x20, lsr #1
    sub sp, x1, #16
    subs w21, w22, w23
    subs xzr, sp, x24, sxtx #4
    cmp x1, x2
    cmp w1, #0
    cmn x1, x2, lsl #4
    neg x0, x1
    negs w0, w1
    adc x0, x1, x2
    adcs w0, w1, w2
    sbc x0, x1, x2
    sbcs x0, x1, xzr
    ngc w0, w1
    and x0, x1, x2, ror #7
    and x0, x1, #0xf0f0f0f0f0f0f0f0
    and sp, x1, #-16
    ands w0, w1, #0x80000001
    ands x0, x1, x2
    tst x1, #1
    bic x0, x1, x2, asr #3
    bics w0, w1, w2
    orr x0, x1, x2, lsl #60
    orr w0, w1, #0x00ff00ff
    orn x0, x1, x2
    mvn w0, w1, ror #31
    eor x0, x1, x2, ror #63
    eor x0, x1, #0x5555555555555555
    eon w0, w1, w2
    mov x0, x1
    mov sp, x1
    mov x0, #-1
    movz x0, #0xffff, lsl #48
    movn w0, #1, lsl #16
    movk x0, #0x1234, lsl #32
    movk w0, #0, lsl #16
    adr x0, . + 4095
    adr x0, . - 1
    adrp x0, . + 0x7f000000
    lsl x0, x1, #1
    lsl w0, w1, #31
    lsr x0, x1, #63
    asr w0, w1, #1
    asr x0, x1, #32
    ror w0, w1, #9
    extr x0, x1, x2, #1
    extr w0, w1, w2, #31
    lslv x0, x1, x2
    lslv w0, w1, w2
    lsrv x0, x1, x2
    lsrv w0, w1, w2
    asrv x0, x1, x2
    asrv w0, w1, w2
    rorv x0, x1, x2
    rorv w0, w1, w2
    sbfm x0, x1, #3, #60
    sbfm w0, w1, #30, #2
    sbfx x0, x1, #7, #9
    sbfiz x0, x1, #40, #24
    bfi x0, x1, #60, #4
    bfi w0, w1, #1, #30
    bfxil x0, x1, #13, #17
    ubfx w0, w1, #31, #1
    ubfiz x0, x1, #1, #63
    sxtb x0, w1
    sxth w0, w1
    sxtw x0, w1
    uxtb w0, w1
    uxth w0, w1
    udiv x0, x1, x2
    udiv w0, w1, w2
    sdiv x0, x1, x2
    sdiv w0, w1, w2
    mul x0, x1, x2
    madd x0, x1, x2, x3
    madd w0, w1, w2, w3
    msub x0, x1, x2, x3
    mneg w0, w1, w2
    smaddl x0, w1, w2, x3
    smsubl x0, w1, w2, x3
    umaddl x0, w1, w2, x3
    umsubl x0, w1, w2, x3
    smulh x0, x1, x2
    umulh x0, x1, x2
    clz x0, x1
    clz w0, w1
    cls x0, x1
    cls w0, w1
    rbit x0, x1
    rbit w0, w1
    rev x0, x1
    rev w0, w1
    rev16 x0, x1
    rev16 w0, w1
    rev32 x0, x1
    crc32b w0, w1, w2
    crc32h w0, w1, w2
    crc32w w0, w1, w2
    crc32x w0, w1, x2
    crc32cb w0, w1, w2
    crc32cx w0, w1, x2
    csel x0, x1, x2, eq
    csel w0, w1, w2, lt
    csinc x0, x1, x2, hi
    cset w0, vs
    csinv x0, x1, x2, ge
    csetm x0, mi
    csneg w0, w1, w2, ls
    cneg x0, x1, cc
    ccmp x1, x2, #5, gt
    ccmp w1, #31, #10, ne
    ccmn x1, x2, #0, le
    ccmn w1, #0, #15, al
    b . + 8
    b . - 256
    bl . + 4
    bl . - 16
    b.eq . + 12
    b.lt . - 4
    b.hi . + 1024
    cbz x1, . + 16
    cbz w1, . + 16
    cbnz x1, . + 8
    cbnz w1, . - 8
    tbz x1, #63, . + 20
    tbnz w1, #0, . - 20
    nop
    yield
    dmb ish
    dsb sy
    isb
    mrs x0, nzcv
    msr nzcv, x1
    mrs x0, fpcr
    mrs x0, fpsr
    mrs x0, tpidr_el0
    msr tpidr_el0, x1
    """
)

FP_FORMS: Final = {
    32: _lines(
        """
        fadd s0, s1, s2
        fsub v0.4s, v1.4s, v2.4s
        fmul s0, s1, s2
        fdiv v0.4s, v1.4s, v2.4s
        fsqrt s0, s1
        fmadd s0, s1, s2, s3
        fmaxnm v0.2s, v1.2s, v2.2s
        fcmp s1, s2
        fcvt d0, s1
        fcvtzs x0, s1
        frintx v0.4s, v1.4s
        """
    ),
    64: _lines(
        """
        fadd d0, d1, d2
        fnmsub d0, d1, d2, d3
        fdiv d0, d1, d2
        fmin v0.2d, v1.2d, v2.2d
        fcvt s0, d1
        fcvtas w0, d1
        fcvtzu x0, d1
        frecpe d0, d1
        frsqrts v0.2d, v1.2d, v2.2d
        """
    ),
}


@dataclass(frozen=True)
class Access:
    """How a memory form computes its address, and the size of the whole access in bytes."""

    size: int
    offset: int = 0
    base: int = 1
    index: Index | None = None


MEMORY_FORMS: Final = {
    "ldr x0, [x1]": Access(8),
    "ldr w0, [x1, #16380]": Access(4, 16380),
    "ldr x0, [sp, #8]": Access(8, 8, base=31),
    "ldr x0, [x1, #-256]!": Access(8, -256),
    "ldr x0, [x1], #255": Access(8),
    "ldr x0, [x1, x2]": Access(8, index=Index(2, 3, 0)),
    "ldr x0, [x1, x2, lsl #3]": Access(8, index=Index(2, 3, 3)),
    "ldr w0, [x1, w2, uxtw #2]": Access(4, index=Index(2, 2, 2)),
    "ldr x0, [x1, w2, sxtw]": Access(8, index=Index(2, 6, 0)),
    "ldr w0, [x1, x2, sxtx]": Access(4, index=Index(2, 7, 0)),
    "ldrb w0, [x1, #4095]": Access(1, 4095),
    "ldrh w0, [x1], #-1": Access(2),
    "ldrsb x0, [x1]": Access(1),
    "ldrsb w0, [x1, #1]!": Access(1, 1),
    "ldrsh x0, [x1, #2]": Access(2, 2),
    "ldrsh w0, [x1, w2, sxtw #1]": Access(2, index=Index(2, 6, 1)),
    "ldrsw x0, [x1, #-3]": Access(4, -3),
    "ldur x0, [x1, #-7]": Access(8, -7),
    "ldtr w0, [x1, #5]": Access(4, 5),
    "ldp x0, x2, [x1]": Access(16),
    "ldp w0, w2, [x1, #-256]!": Access(8, -256),
    "ldp x0, x2, [sp], #504": Access(16, base=31),
    "ldpsw x0, x2, [x1, #4]": Access(8, 4),
    "ldnp x0, x2, [x1, #-16]": Access(16, -16),
    "ldr q0, [x1, #16]": Access(16, 16),
    "ldr b0, [x1]": Access(1),
    "ldr h0, [x1], #2": Access(2),
    "ldr s0, [x1, x2, lsl #2]": Access(4, index=Index(2, 3, 2)),
    "ldr d0, [x1, #-8]!": Access(8, -8),
    "ldp q0, q2, [x1, #32]": Access(32, 32),
    "ld1 {v0.16b, v1.16b}, [x1]": Access(32),
    "ld4 {v0.4h, v1.4h, v2.4h, v3.4h}, [x1]": Access(32),
    "str x0, [x1]": Access(8),
    "str xzr, [x1, #8]!": Access(8, 8),
    "str w0, [x1], #-4": Access(4),
    "str x0, [x1, w2, uxtw #3]": Access(8, index=Index(2, 2, 3)),
    "strb w0, [x1, x2]": Access(1, index=Index(2, 3, 0)),
    "strh w0, [x1, #8190]": Access(2, 8190),
    "stur x0, [x1, #255]": Access(8, 255),
    "sttr x0, [x1, #-1]": Access(8, -1),
    "stp x0, x2, [x1, #16]": Access(16, 16),
    "stp w0, w2, [x1], #8": Access(8),
    "stp x0, x2, [sp, #-512]!": Access(16, -512, base=31),
    "stnp w0, w2, [x1, #252]": Access(8, 252),
    "str q0, [x1]": Access(16),
    "str d0, [x1, w2, sxtw #3]": Access(8, index=Index(2, 6, 3)),
    "stp s0, s2, [x1, #4]!": Access(8, 4),
    "st1 {v0.8h}, [x1], #16": Access(16),
    "st3 {v0.2d, v1.2d, v2.2d}, [x1]": Access(48),
    "prfm pldl1keep, [x1]": Access(8),
}
