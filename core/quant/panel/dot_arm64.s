//go:build !purego

#include "textflag.h"

// Instructions that Go's assembler lacks are written as words:
// op | Vm<<16 | Vn<<5 | Vd.
#define SDOT(m, n, d) WORD $(0x4E809400 | (m)<<16 | (n)<<5 | (d))
#define FMUL(m, n, d) WORD $(0x6E20DC00 | (m)<<16 | (n)<<5 | (d))
#define SCVTF(n, d) WORD $(0x4E21D800 | (n)<<5 | (d))

// func tileSDOT(y *float32, q *int8, s *float32, x *int8, d *float32, stride uintptr, groups int)
//
// y, 16 rows of weights a lane, is the sum over groups of 32 columns of
// float(Σ q·x) · (s·d). Four columns of the activations x are stride bytes from
// the next, and so is one group's scale d. groups is positive.
TEXT ·tileSDOT(SB), NOSPLIT, $0-56
	MOVD y+0(FP), R0
	MOVD q+8(FP), R1
	MOVD s+16(FP), R2
	MOVD x+24(FP), R3
	MOVD d+32(FP), R4
	MOVD stride+40(FP), R5
	MOVD groups+48(FP), R6
	VEOR V16.B16, V16.B16, V16.B16
	VEOR V17.B16, V17.B16, V17.B16
	VEOR V18.B16, V18.B16, V18.B16
	VEOR V19.B16, V19.B16, V19.B16

group:
	VEOR V20.B16, V20.B16, V20.B16
	VEOR V21.B16, V21.B16, V21.B16
	VEOR V22.B16, V22.B16, V22.B16
	VEOR V23.B16, V23.B16, V23.B16
	MOVD $8, R7

unit:
	VLD1.P  64(R1), [V0.B16, V1.B16, V2.B16, V3.B16]
	VLD1R.P (R3)(R5), [V4.S4]
	SDOT(4, 0, 20)
	SDOT(4, 1, 21)
	SDOT(4, 2, 22)
	SDOT(4, 3, 23)
	SUBS $1, R7, R7
	BNE  unit

	VLD1.P  64(R2), [V0.S4, V1.S4, V2.S4, V3.S4]
	VLD1R.P (R4)(R5), [V4.S4]
	SCVTF(20, 20)
	SCVTF(21, 21)
	SCVTF(22, 22)
	SCVTF(23, 23)
	FMUL(4, 0, 0)
	FMUL(4, 1, 1)
	FMUL(4, 2, 2)
	FMUL(4, 3, 3)
	VFMLA V0.S4, V20.S4, V16.S4
	VFMLA V1.S4, V21.S4, V17.S4
	VFMLA V2.S4, V22.S4, V18.S4
	VFMLA V3.S4, V23.S4, V19.S4
	SUBS $1, R6, R6
	BNE  group

	VST1 [V16.S4, V17.S4, V18.S4, V19.S4], (R0)
	RET
