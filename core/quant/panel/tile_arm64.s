//go:build !purego

#include "textflag.h"

#define SMMLA(m, n, d) WORD $(0x4E80A400 | (m)<<16 | (n)<<5 | (d))
#define FMUL(m, n, d) WORD $(0x6E20DC00 | (m)<<16 | (n)<<5 | (d))
#define SCVTF(n, d) WORD $(0x4E21D800 | (n)<<5 | (d))

// func zipNEON(dst, src *int8, pairs int)
//
// Two units, four columns of 16 rows each, become eight columns of 16 rows,
// row after row: the layout of SMMLA.
TEXT ·zipNEON(SB), NOSPLIT, $0-24
	MOVD dst+0(FP), R0
	MOVD src+8(FP), R1
	MOVD pairs+16(FP), R6

loop:
	VLD1.P 64(R1), [V0.B16, V1.B16, V2.B16, V3.B16]
	VLD1.P 64(R1), [V4.B16, V5.B16, V6.B16, V7.B16]
	VZIP1  V4.S4, V0.S4, V8.S4
	VZIP2  V4.S4, V0.S4, V9.S4
	VZIP1  V5.S4, V1.S4, V10.S4
	VZIP2  V5.S4, V1.S4, V11.S4
	VZIP1  V6.S4, V2.S4, V12.S4
	VZIP2  V6.S4, V2.S4, V13.S4
	VZIP1  V7.S4, V3.S4, V14.S4
	VZIP2  V7.S4, V3.S4, V15.S4
	VST1.P [V8.B16, V9.B16, V10.B16, V11.B16], 64(R0)
	VST1.P [V12.B16, V13.B16, V14.B16, V15.B16], 64(R0)
	SUBS   $1, R6, R6
	BNE    loop
	RET

// CLEAR2 and PAIR: V16 to V31 are the sums of pairs of rows of weights with
// pairs of rows of activations, V0 to V7 the weights, V10 and V11 the
// activations.
#define CLEAR2(a, b) \
	VEOR a.B16, a.B16, a.B16 \
	VEOR b.B16, b.B16, b.B16

#define PAIR(n, d) \
	SMMLA(10, n, d)     \
	SMMLA(11, n, (d+1))

// OUT adds four rows' sums with one row of activations, times (s·d), to y.
#define OUT(TAKE, a, b, s) \
	TAKE b.S4, a.S4, V0.S4        \
	SCVTF(0, 0)                   \
	FMUL(8, s, 1)                 \
	VLD1 (R9), [V2.S4]            \
	VFMLA V1.S4, V0.S4, V2.S4     \
	VST1.P [V2.S4], 16(R9)

#define ROW(TAKE, a, b, c, d, e, f, g, h) \
	VLD1R.P 4(R10), [V8.S4]  \
	OUT(TAKE, a, b, 12)      \
	OUT(TAKE, c, d, 13)      \
	OUT(TAKE, e, f, 14)      \
	OUT(TAKE, g, h, 15)      \
	SUB  $64, R9, R9         \
	ADD  R8, R9, R9

// func tileSMMLA(y *float32, ldy int, w *int8, s *float32, x *int8, d *float32, groups int)
//
// Adds to y the products of a panel of 16 rows, zipped, with 4 of the 8 rows
// of a tile of activations.
TEXT ·tileSMMLA(SB), NOSPLIT, $0-56
	MOVD y+0(FP), R0
	MOVD ldy+8(FP), R8
	LSL  $2, R8, R8
	MOVD w+16(FP), R1
	MOVD s+24(FP), R2
	MOVD x+32(FP), R3
	MOVD d+40(FP), R4
	MOVD groups+48(FP), R6

group:
	CLEAR2(V16, V17)
	CLEAR2(V18, V19)
	CLEAR2(V20, V21)
	CLEAR2(V22, V23)
	CLEAR2(V24, V25)
	CLEAR2(V26, V27)
	CLEAR2(V28, V29)
	CLEAR2(V30, V31)
	MOVD $4, R7

eight:
	VLD1   (R3), [V8.B16]
	ADD    $32, R3, R3
	VLD1   (R3), [V9.B16]
	ADD    $32, R3, R3
	VLD1.P 64(R1), [V0.B16, V1.B16, V2.B16, V3.B16]
	VLD1.P 64(R1), [V4.B16, V5.B16, V6.B16, V7.B16]
	VZIP1  V9.S4, V8.S4, V10.S4
	VZIP2  V9.S4, V8.S4, V11.S4
	PAIR(0, 16)
	PAIR(1, 18)
	PAIR(2, 20)
	PAIR(3, 22)
	PAIR(4, 24)
	PAIR(5, 26)
	PAIR(6, 28)
	PAIR(7, 30)
	SUBS   $1, R7, R7
	BNE    eight

	VLD1.P 64(R2), [V12.S4, V13.S4, V14.S4, V15.S4]
	MOVD   R0, R9
	MOVD   R4, R10
	ADD    $32, R4, R4
	ROW(VUZP1, V16, V18, V20, V22, V24, V26, V28, V30)
	ROW(VUZP2, V16, V18, V20, V22, V24, V26, V28, V30)
	ROW(VUZP1, V17, V19, V21, V23, V25, V27, V29, V31)
	ROW(VUZP2, V17, V19, V21, V23, V25, V27, V29, V31)
	SUBS   $1, R6, R6
	BNE    group
	RET
