//go:build !purego

#include "textflag.h"

// Vector kernels in NEON. What Go's assembler has no name for is written as a
// word: op | Vm<<16 | Vn<<5 | Vd.
#define FADD(m, n, d) WORD $(0x4E20D400 | (m)<<16 | (n)<<5 | (d))
#define FADDP(m, n, d) WORD $(0x6E20D400 | (m)<<16 | (n)<<5 | (d))
#define FCVTL(n, d) WORD $(0x0E217800 | (n)<<5 | (d))
#define FCVTL2(n, d) WORD $(0x4E217800 | (n)<<5 | (d))

// func dotNEON(a, b *float32, n int) float32
// n is a positive multiple of 16.
TEXT ·dotNEON(SB), NOSPLIT, $0-28
	MOVD a+0(FP), R0
	MOVD b+8(FP), R1
	MOVD n+16(FP), R2
	VEOR V16.B16, V16.B16, V16.B16
	VEOR V17.B16, V17.B16, V17.B16
	VEOR V18.B16, V18.B16, V18.B16
	VEOR V19.B16, V19.B16, V19.B16

loop:
	VLD1.P 64(R0), [V0.S4, V1.S4, V2.S4, V3.S4]
	VLD1.P 64(R1), [V4.S4, V5.S4, V6.S4, V7.S4]
	VFMLA  V0.S4, V4.S4, V16.S4
	VFMLA  V1.S4, V5.S4, V17.S4
	VFMLA  V2.S4, V6.S4, V18.S4
	VFMLA  V3.S4, V7.S4, V19.S4
	SUBS   $16, R2, R2
	BNE    loop

	FADD(17, 16, 16)
	FADD(19, 18, 18)
	FADD(18, 16, 16)
	FADDP(16, 16, 16)
	FADDP(16, 16, 16)
	FMOVS F16, ret+24(FP)
	RET

// func axpyNEON(y, x *float32, n int, a float32)
// n is a positive multiple of 16.
TEXT ·axpyNEON(SB), NOSPLIT, $0-28
	MOVD  y+0(FP), R0
	MOVD  x+8(FP), R1
	MOVD  n+16(FP), R2
	FMOVS a+24(FP), F16
	VDUP  V16.S[0], V16.S4

loop:
	VLD1.P 64(R1), [V4.S4, V5.S4, V6.S4, V7.S4]
	VLD1   (R0), [V0.S4, V1.S4, V2.S4, V3.S4]
	VFMLA  V16.S4, V4.S4, V0.S4
	VFMLA  V16.S4, V5.S4, V1.S4
	VFMLA  V16.S4, V6.S4, V2.S4
	VFMLA  V16.S4, V7.S4, V3.S4
	VST1.P [V0.S4, V1.S4, V2.S4, V3.S4], 64(R0)
	SUBS   $16, R2, R2
	BNE    loop
	RET

// func fromF16NEON(dst *float32, src *byte, n int)
// n is a positive multiple of 8.
TEXT ·fromF16NEON(SB), NOSPLIT, $0-24
	MOVD dst+0(FP), R0
	MOVD src+8(FP), R1
	MOVD n+16(FP), R2

loop:
	VLD1.P 16(R1), [V0.H8]
	FCVTL(0, 1)
	FCVTL2(0, 2)
	VST1.P [V1.S4, V2.S4], 32(R0)
	SUBS   $8, R2, R2
	BNE    loop
	RET

// func panelNEON(c, a, b *float32, k int)
// Adds to 32 elements of c the product of a, k long, with k rows of 32 of b.
// k is positive.
TEXT ·panelNEON(SB), NOSPLIT, $0-32
	MOVD c+0(FP), R0
	MOVD a+8(FP), R1
	MOVD b+16(FP), R2
	MOVD k+24(FP), R3
	MOVD R0, R4
	VLD1.P 64(R4), [V16.S4, V17.S4, V18.S4, V19.S4]
	VLD1   (R4), [V20.S4, V21.S4, V22.S4, V23.S4]

loop:
	VLD1R.P 4(R1), [V24.S4]
	VLD1.P  64(R2), [V0.S4, V1.S4, V2.S4, V3.S4]
	VLD1.P  64(R2), [V4.S4, V5.S4, V6.S4, V7.S4]
	VFMLA   V0.S4, V24.S4, V16.S4
	VFMLA   V1.S4, V24.S4, V17.S4
	VFMLA   V2.S4, V24.S4, V18.S4
	VFMLA   V3.S4, V24.S4, V19.S4
	VFMLA   V4.S4, V24.S4, V20.S4
	VFMLA   V5.S4, V24.S4, V21.S4
	VFMLA   V6.S4, V24.S4, V22.S4
	VFMLA   V7.S4, V24.S4, V23.S4
	SUBS    $1, R3, R3
	BNE     loop

	VST1.P [V16.S4, V17.S4, V18.S4, V19.S4], 64(R0)
	VST1   [V20.S4, V21.S4, V22.S4, V23.S4], (R0)
	RET
