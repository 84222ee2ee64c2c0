//go:build amd64 && !purego

#include "textflag.h"

#define CONST32(name, value) \
	DATA name<>+0(SB)/8, value  \
	DATA name<>+8(SB)/8, value  \
	DATA name<>+16(SB)/8, value \
	DATA name<>+24(SB)/8, value \
	GLOBL name<>(SB), RODATA|NOPTR, $32

CONST32(ones16, $0x0001000100010001)

// The products of 8 of a panel's 16 rows with 4 rows of activations, or 1.
// VPMADDUBSW wants one factor unsigned: it gets |w|, and the activations get
// the sign of w. Registers: DI y, AX its stride in bytes; SI weights; R8 their
// scales, BX their minima; R9 activations, DX the bytes from unit to unit; R10
// their scales; R11 their sums; R12 units in a group of weights; CX groups of
// 32 activations, R13 the figures' stride.

#define PRODUCT(at, acc) \
	VPBROADCASTD at(R9), Y11       \
	VPSIGNB      Y8, Y11, Y11      \
	VPMADDUBSW   Y11, Y9, Y11      \
	VPMADDWD     Y10, Y11, Y11     \
	VPADDD       Y11, acc, acc

#define SCALED(at, ints, acc) \
	VCVTDQ2PS    ints, ints          \
	VBROADCASTSS at(R10), Y11        \
	VMULPS       Y12, Y11, Y11       \
	VFMADD231PS  ints, Y11, acc

#define LESS(at, acc) \
	VBROADCASTSS at(R11), Y11       \
	VFNMADD231PS Y12, Y11, acc

#define TILE \
	MOVQ    y+0(FP), DI         \
	MOVQ    ldy+8(FP), AX       \
	SHLQ    $2, AX              \
	MOVQ    w+16(FP), SI        \
	MOVQ    scale+24(FP), R8    \
	MOVQ    minimum+32(FP), BX  \
	MOVQ    x+40(FP), R9        \
	MOVQ    d+48(FP), R10       \
	MOVQ    sum+56(FP), R11     \
	MOVQ    rows+64(FP), DX     \
	SHLQ    $2, DX              \
	MOVQ    parts+72(FP), R12   \
	MOVQ    groups+80(FP), CX   \
	VMOVDQU ones16<>(SB), Y10   \
	VXORPS  Y4, Y4, Y4          \
	VXORPS  Y5, Y5, Y5          \
	VXORPS  Y6, Y6, Y6          \
	VXORPS  Y7, Y7, Y7

// func tile4AVX2(y *float32, ldy int, w *int8, scale, minimum *float32, x *int8, d, sum *float32, rows, parts, groups int)
//
// rows is how many rows the tile of activations has, parts how many groups of
// weights there are to one of activations: 1 or 2.
TEXT ·tile4AVX2(SB), NOSPLIT, $0-88
	TILE

loop:
	MOVQ R12, R14

part:
	VPXOR Y0, Y0, Y0
	VPXOR Y1, Y1, Y1
	VPXOR Y2, Y2, Y2
	VPXOR Y3, Y3, Y3
	MOVQ  $8, R15
	CMPQ  R12, $1
	JEQ   unit
	MOVQ  $4, R15

unit:
	VMOVDQU (SI), Y8
	VPABSB  Y8, Y9
	PRODUCT(0, Y0)
	PRODUCT(4, Y1)
	PRODUCT(8, Y2)
	PRODUCT(12, Y3)
	ADDQ    $64, SI
	ADDQ    DX, R9
	DECQ    R15
	JNZ     unit
	VMOVUPS (R8), Y12
	ADDQ    $64, R8
	SCALED(0, Y0, Y4)
	SCALED(4, Y1, Y5)
	SCALED(8, Y2, Y6)
	SCALED(12, Y3, Y7)
	DECQ    R14
	JNZ     part
	ADDQ    DX, R10
	TESTQ   BX, BX
	JZ      next
	VMOVUPS (BX), Y12
	ADDQ    $64, BX
	LESS(0, Y4)
	LESS(4, Y5)
	LESS(8, Y6)
	LESS(12, Y7)
	ADDQ    DX, R11

next:
	DECQ    CX
	JNZ     loop
	VMOVUPS Y4, (DI)
	VMOVUPS Y5, (DI)(AX*1)
	LEAQ    (DI)(AX*2), DI
	VMOVUPS Y6, (DI)
	VMOVUPS Y7, (DI)(AX*1)
	VZEROUPPER
	RET

// func tile1AVX2(y *float32, ldy int, w *int8, scale, minimum *float32, x *int8, d, sum *float32, rows, parts, groups int)
TEXT ·tile1AVX2(SB), NOSPLIT, $0-88
	TILE

loop:
	MOVQ R12, R14

part:
	VPXOR Y0, Y0, Y0
	MOVQ  $8, R15
	CMPQ  R12, $1
	JEQ   unit
	MOVQ  $4, R15

unit:
	VMOVDQU (SI), Y8
	VPABSB  Y8, Y9
	PRODUCT(0, Y0)
	ADDQ    $64, SI
	ADDQ    DX, R9
	DECQ    R15
	JNZ     unit
	VMOVUPS (R8), Y12
	ADDQ    $64, R8
	SCALED(0, Y0, Y4)
	DECQ    R14
	JNZ     part
	ADDQ    DX, R10
	TESTQ   BX, BX
	JZ      next
	VMOVUPS (BX), Y12
	ADDQ    $64, BX
	LESS(0, Y4)
	ADDQ    DX, R11

next:
	DECQ    CX
	JNZ     loop
	VMOVUPS Y4, (DI)
	VZEROUPPER
	RET

