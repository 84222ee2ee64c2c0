//go:build amd64 && !purego

#include "textflag.h"

#define CONST32(name, value) \
	DATA name<>+0(SB)/8, value  \
	DATA name<>+8(SB)/8, value  \
	DATA name<>+16(SB)/8, value \
	DATA name<>+24(SB)/8, value \
	GLOBL name<>(SB), RODATA|NOPTR, $32

CONST32(ones8, $0x0101010101010101)
CONST32(ones16, $0x0001000100010001)
CONST32(absolute, $0x7fffffff7fffffff)

DATA perm<>+0(SB)/8, $0x0000000400000000
DATA perm<>+8(SB)/8, $0x0000000500000001
DATA perm<>+16(SB)/8, $0x0000000600000002
DATA perm<>+24(SB)/8, $0x0000000700000003
GLOBL perm<>(SB), RODATA|NOPTR, $32

DATA const127<>+0(SB)/4, $0x42fe0000
GLOBL const127<>(SB), RODATA|NOPTR, $4

// func quantiseAVX2(q *int8, stride int, scale, sum *float32, fix32, fix16 *int32, x *float32, groups int)
//
// The figures of consecutive groups are stride numbers apart.
TEXT ·quantiseAVX2(SB), NOSPLIT, $0-64
	MOVQ    q+0(FP), DI
	MOVQ    stride+8(FP), AX
	SHLQ    $2, AX
	MOVQ    scale+16(FP), R8
	MOVQ    sum+24(FP), R9
	MOVQ    fix32+32(FP), R10
	MOVQ    fix16+40(FP), R11
	MOVQ    x+48(FP), SI
	MOVQ    groups+56(FP), CX
	VMOVDQU absolute<>(SB), Y15
	VMOVDQU ones8<>(SB), Y14
	VMOVDQU ones16<>(SB), Y13
	VMOVDQU perm<>(SB), Y12
	VMOVSS  const127<>(SB), X11

loop:
	VMOVUPS (SI), Y0
	VMOVUPS 32(SI), Y1
	VMOVUPS 64(SI), Y2
	VMOVUPS 96(SI), Y3

	// X4 = max |x|. Numbers without sign are ordered like their bits,
	// with NaN at the top, which VMAXPS would lose.
	VANDPS       Y15, Y0, Y4
	VANDPS       Y15, Y1, Y5
	VANDPS       Y15, Y2, Y6
	VANDPS       Y15, Y3, Y7
	VPMAXSD      Y5, Y4, Y4
	VPMAXSD      Y7, Y6, Y6
	VPMAXSD      Y6, Y4, Y4
	VEXTRACTF128 $1, Y4, X5
	VPMAXSD      X5, X4, X4
	VPERMILPS    $0x4e, X4, X5
	VPMAXSD      X5, X4, X4
	VPERMILPS    $0xb1, X4, X5
	VPMAXSD      X5, X4, X4

	// X8 = d = max / 127, Y5 = 127 / max, or 0
	VDIVSS       X11, X4, X8
	VDIVSS       X4, X11, X5
	VXORPS       X6, X6, X6
	VCMPSS       $4, X6, X4, X6 // max ≠ 0
	VANDPS       X6, X5, X5
	VBROADCASTSS X5, Y5
	VMOVSS       X8, (R8)

	VMULPS    Y5, Y0, Y0
	VMULPS    Y5, Y1, Y1
	VMULPS    Y5, Y2, Y2
	VMULPS    Y5, Y3, Y3
	VCVTPS2DQ Y0, Y0
	VCVTPS2DQ Y1, Y1
	VCVTPS2DQ Y2, Y2
	VCVTPS2DQ Y3, Y3
	VPACKSSDW Y1, Y0, Y0
	VPACKSSDW Y3, Y2, Y2
	VPACKSSWB Y2, Y0, Y0
	VPERMD    Y0, Y12, Y0 // packing works on halves: put fours in order
	VMOVDQU   Y0, (DI)

	// The sums of the first and the last 16.
	VPMADDUBSW   Y0, Y14, Y1
	VPMADDWD     Y13, Y1, Y1
	VEXTRACTI128 $1, Y1, X2
	VPHADDD      X2, X1, X1
	VPHADDD      X1, X1, X1 // lo, hi, lo, hi
	VPSLLD       $7, X1, X3
	VPXOR        X4, X4, X4
	VPSUBD       X3, X4, X3 // -128·lo, -128·hi
	VMOVD        X3, (R11)
	VPEXTRD      $1, X3, (R11)(AX*1)
	VPHADDD      X3, X3, X3
	VMOVD        X3, (R10)
	VPHADDD      X1, X1, X1
	VCVTDQ2PS    X1, X1
	VMULSS       X8, X1, X1
	VMOVSS       X1, (R9)

	ADDQ $32, DI
	ADDQ $128, SI
	ADDQ AX, R8
	ADDQ AX, R9
	ADDQ AX, R10
	LEAQ (R11)(AX*2), R11
	DECQ CX
	JNZ  loop
	VZEROUPPER
	RET

