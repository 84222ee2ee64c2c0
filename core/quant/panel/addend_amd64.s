//go:build !purego

#include "textflag.h"

// Registers: DI y, AX its stride; SI addends; R10 the scales of activations; R12
// fix, -128 times the sums of activations; CX groups. Y0 to Y7 are the results of
// four rows of activations.

#define ROW(r, fix, a, b) \
	VBROADCASTSS (4*r)(R10), Y10        \
	VMULPS       Y10, Y8, Y11           \
	VMULPS       Y10, Y9, Y12           \
	VPBROADCASTD (4*r+fix)(R12), Y10    \
	VPSRAD       $7, Y10, Y10           \
	VCVTDQ2PS    Y10, Y10               \
	VFNMADD231PS Y11, Y10, a            \
	VFNMADD231PS Y12, Y10, b

#define ROWS(addends, fix) \
	VMOVUPS addends(SI), Y8      \
	VMOVUPS (addends+32)(SI), Y9 \
	ROW(0, fix, Y0, Y1)          \
	ROW(1, fix, Y2, Y3)          \
	ROW(2, fix, Y4, Y5)          \
	ROW(3, fix, Y6, Y7)

#define PUT(a, b) \
	VADDPS  (DI), a, a   \
	VADDPS  32(DI), b, b \
	VMOVUPS a, (DI)      \
	VMOVUPS b, 32(DI)    \
	ADDQ    AX, DI

// func addendsAVX2(y *float32, ldy int, addend, d *float32, fix *int32, groups int)
//
// Adds the sums of two addends of each group of 32 columns, times the sums of
// activations, to 16 rows of weights by 4 of the 8 rows of a tile.
TEXT ·addendsAVX2(SB), NOSPLIT, $0-48
	MOVQ   y+0(FP), DI
	MOVQ   ldy+8(FP), AX
	SHLQ   $2, AX
	MOVQ   addend+16(FP), SI
	MOVQ   d+24(FP), R10
	MOVQ   fix+32(FP), R12
	MOVQ   groups+40(FP), CX
	VXORPS Y0, Y0, Y0
	VXORPS Y1, Y1, Y1
	VXORPS Y2, Y2, Y2
	VXORPS Y3, Y3, Y3
	VXORPS Y4, Y4, Y4
	VXORPS Y5, Y5, Y5
	VXORPS Y6, Y6, Y6
	VXORPS Y7, Y7, Y7

loop:
	ROWS(0, 0)
	ROWS(64, 32)
	ADDQ $128, SI
	ADDQ $32, R10
	ADDQ $64, R12
	DECQ CX
	JNZ  loop
	PUT(Y0, Y1)
	PUT(Y2, Y3)
	PUT(Y4, Y5)
	PUT(Y6, Y7)
	VZEROUPPER
	RET
