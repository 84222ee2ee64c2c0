//go:build !purego

#include "textflag.h"

// Instructions that Go's assembler lacks are written as words. SDOTI multiplies
// with the four bytes i of m.
#define SDOTI(i, m, n, d) WORD $(0x4F80E000 | ((i)&1)<<21 | (m)<<16 | ((i)>>1)<<11 | (n)<<5 | (d))
#define FMUL(m, n, d) WORD $(0x6E20DC00 | (m)<<16 | (n)<<5 | (d))
#define SCVTF(n, d) WORD $(0x4E21D800 | (n)<<5 | (d))
#define FCVTL(n, d) WORD $(0x0E217800 | (n)<<5 | (d))
#define FCVTL2(n, d) WORD $(0x4E217800 | (n)<<5 | (d))
#define SSHR4(n, d) WORD $(0x4F3C0400 | (n)<<5 | (d))

// Products of one row of activations with panels of 16 rows of weights, four
// rows a register, by SDOT.
//
// Registers: R0 y; R1 integers; R2 scales; R3 activations, R4 their scales, R5
// the correction of the offset; R6 groups of 32 columns; R7 panels. V16 to V19 are the
// results, V20 to V27 the integer sums, of which the last four are added to
// the first; V28 and V29 the activations.

#define ARGS \
	MOVD y+0(FP), R0      \
	MOVD q+8(FP), R1      \
	MOVD s+16(FP), R2     \
	MOVD panels+56(FP), R7

#define PANEL \
	MOVD x+24(FP), R3               \
	MOVD d+32(FP), R4               \
	MOVD fix+40(FP), R5             \
	MOVD n+48(FP), R6               \
	VEOR V16.B16, V16.B16, V16.B16  \
	VEOR V17.B16, V17.B16, V17.B16  \
	VEOR V18.B16, V18.B16, V18.B16  \
	VEOR V19.B16, V19.B16, V19.B16

#define GROUP \
	VLD1.P 32(R3), [V28.B16, V29.B16] \
	VEOR V24.B16, V24.B16, V24.B16    \
	VEOR V25.B16, V25.B16, V25.B16    \
	VEOR V26.B16, V26.B16, V26.B16    \
	VEOR V27.B16, V27.B16, V27.B16

// FOUR multiplies unit i of m, which V0 to V3 or V4 to V7 hold, for 16 rows.
#define FOUR(i, m, n, d) \
	SDOTI(i, m, n, d)           \
	SDOTI(i, m, (n+1), (d+1))   \
	SDOTI(i, m, (n+2), (d+2))   \
	SDOTI(i, m, (n+3), (d+3))

// SCALED adds float(sums) · (s·d) to the results.
#define SCALED \
	VADD V24.S4, V20.S4, V20.S4   \
	VADD V25.S4, V21.S4, V21.S4   \
	VADD V26.S4, V22.S4, V22.S4   \
	VADD V27.S4, V23.S4, V23.S4   \
	VLD1.P 32(R2), [V0.B16, V1.B16] \
	MOVWU.P 4(R4), R8             \
	VDUP R8, V8.S4                \
	FCVTL(0, 4)                   \
	FCVTL2(0, 5)                  \
	FCVTL(1, 6)                   \
	FCVTL2(1, 7)                  \
	SCVTF(20, 20)                 \
	SCVTF(21, 21)                 \
	SCVTF(22, 22)                 \
	SCVTF(23, 23)                 \
	FMUL(8, 4, 4)                 \
	FMUL(8, 5, 5)                 \
	FMUL(8, 6, 6)                 \
	FMUL(8, 7, 7)                 \
	VFMLA V4.S4, V20.S4, V16.S4   \
	VFMLA V5.S4, V21.S4, V17.S4   \
	VFMLA V6.S4, V22.S4, V18.S4   \
	VFMLA V7.S4, V23.S4, V19.S4

#define DONE \
	SUBS  $1, R6, R6               \
	BNE   group                    \
	VST1.P [V16.S4, V17.S4, V18.S4, V19.S4], 64(R0) \
	SUBS  $1, R7, R7               \
	BNE   panel                    \
	RET

#define PAIR8 \
	VLD1.P 64(R1), [V0.B16, V1.B16, V2.B16, V3.B16] \
	VLD1.P 64(R1), [V4.B16, V5.B16, V6.B16, V7.B16]

// func rowQ8SDOT(y *float32, q, s *byte, x *int8, d *float32, fix *int32, n, panels int)
TEXT ·rowQ8SDOT(SB), NOSPLIT, $0-64
	ARGS

panel:
	PANEL

group:
	GROUP
	VEOR V20.B16, V20.B16, V20.B16
	VEOR V21.B16, V21.B16, V21.B16
	VEOR V22.B16, V22.B16, V22.B16
	VEOR V23.B16, V23.B16, V23.B16
	PAIR8
	FOUR(0, 28, 0, 20)
	FOUR(1, 28, 4, 24)
	PAIR8
	FOUR(2, 28, 0, 20)
	FOUR(3, 28, 4, 24)
	PAIR8
	FOUR(0, 29, 0, 20)
	FOUR(1, 29, 4, 24)
	PAIR8
	FOUR(2, 29, 0, 20)
	FOUR(3, 29, 4, 24)
	SCALED
	DONE

// HALVES splits units i and i+4 of four bits.
#define HALVES \
	VLD1.P 64(R1), [V0.B16, V1.B16, V2.B16, V3.B16] \
	VUSHR  $4, V0.B16, V4.B16     \
	VUSHR  $4, V1.B16, V5.B16     \
	VUSHR  $4, V2.B16, V6.B16     \
	VUSHR  $4, V3.B16, V7.B16     \
	VAND   V30.B16, V0.B16, V0.B16 \
	VAND   V30.B16, V1.B16, V1.B16 \
	VAND   V30.B16, V2.B16, V2.B16 \
	VAND   V30.B16, V3.B16, V3.B16

// func rowQ4SDOT(y *float32, q, s *byte, x *int8, d *float32, fix *int32, n, panels int)
TEXT ·rowQ4SDOT(SB), NOSPLIT, $0-64
	ARGS
	VMOVI $15, V30.B16

panel:
	PANEL

group:
	GROUP
	MOVWU.P 4(R5), R8 // -128·Σx, of which -8·Σx
	VDUP    R8, V20.S4
	SSHR4(20, 20)
	VMOV    V20.B16, V21.B16
	VMOV    V20.B16, V22.B16
	VMOV    V20.B16, V23.B16
	HALVES
	FOUR(0, 28, 0, 20)
	FOUR(0, 29, 4, 24)
	HALVES
	FOUR(1, 28, 0, 20)
	FOUR(1, 29, 4, 24)
	HALVES
	FOUR(2, 28, 0, 20)
	FOUR(2, 29, 4, 24)
	HALVES
	FOUR(3, 28, 0, 20)
	FOUR(3, 29, 4, 24)
	SCALED
	DONE

// func unpack4NEON(dst *int8, q *byte, groups, offset int)
//
// 32 columns of 16 rows, of four bits, become signed bytes minus the offset.
TEXT ·unpack4NEON(SB), NOSPLIT, $0-32
	MOVD  dst+0(FP), R0
	MOVD  q+8(FP), R1
	MOVD  groups+16(FP), R6
	MOVD  offset+24(FP), R8
	VMOVI $15, V30.B16
	VDUP  R8, V31.B16

group:
	MOVD $4, R7
	ADD  $256, R0, R2

unit:
	HALVES
	VSUB   V31.B16, V0.B16, V0.B16
	VSUB   V31.B16, V1.B16, V1.B16
	VSUB   V31.B16, V2.B16, V2.B16
	VSUB   V31.B16, V3.B16, V3.B16
	VSUB   V31.B16, V4.B16, V4.B16
	VSUB   V31.B16, V5.B16, V5.B16
	VSUB   V31.B16, V6.B16, V6.B16
	VSUB   V31.B16, V7.B16, V7.B16
	VST1.P [V0.B16, V1.B16, V2.B16, V3.B16], 64(R0)
	VST1.P [V4.B16, V5.B16, V6.B16, V7.B16], 64(R2)
	SUBS   $1, R7, R7
	BNE    unit
	MOVD   R2, R0
	SUBS   $1, R6, R6
	BNE    group
	RET
