//go:build amd64 && !purego

#include "textflag.h"

// Products of a panel of 16 rows of weights, unpacked to signed bytes, with a
// tile of 8 rows of activations, by AVX-512 VNNI. Weights have 128 added, so
// that they are unsigned; fix subtracts the excess.
//
// Registers: DI y, AX its stride; SI weights; R8 their scales, BX their
// minima; R9 activations; R10 their scales; R11 their sums; R12 fix; CX
// groups. Z0 to Z7 are the results, one row of activations each, Z8 to Z15
// the integer sums of a group.

DATA flip<>+0(SB)/8, $0x8080808080808080
GLOBL flip<>(SB), RODATA|NOPTR, $8

#define ARGS \
	MOVQ y+0(FP), DI        \
	MOVQ ldy+8(FP), AX      \
	SHLQ $2, AX             \
	MOVQ w+16(FP), SI       \
	MOVQ scale+24(FP), R8   \
	MOVQ minimum+32(FP), BX \
	MOVQ x+40(FP), R9       \
	MOVQ d+48(FP), R10      \
	MOVQ sum+56(FP), R11    \
	MOVQ fix+64(FP), R12    \
	MOVQ groups+72(FP), CX  \
	VPBROADCASTQ flip<>(SB), Z31 \
	VPXORD Z0, Z0, Z0       \
	VPXORD Z1, Z1, Z1       \
	VPXORD Z2, Z2, Z2       \
	VPXORD Z3, Z3, Z3       \
	VPXORD Z4, Z4, Z4       \
	VPXORD Z5, Z5, Z5       \
	VPXORD Z6, Z6, Z6       \
	VPXORD Z7, Z7, Z7

#define BEGIN \
	VPBROADCASTD (R12), Z8    \
	VPBROADCASTD 4(R12), Z9   \
	VPBROADCASTD 8(R12), Z10  \
	VPBROADCASTD 12(R12), Z11 \
	VPBROADCASTD 16(R12), Z12 \
	VPBROADCASTD 20(R12), Z13 \
	VPBROADCASTD 24(R12), Z14 \
	VPBROADCASTD 28(R12), Z15 \
	ADDQ $32, R12

// UNIT multiplies four columns; w alternates to allow loading the next.
#define UNIT(i, w) \
	VPXORD        (64*i)(SI), Z31, w      \
	VPDPBUSD.BCST (32*i)(R9), w, Z8       \
	VPDPBUSD.BCST (32*i+4)(R9), w, Z9     \
	VPDPBUSD.BCST (32*i+8)(R9), w, Z10    \
	VPDPBUSD.BCST (32*i+12)(R9), w, Z11   \
	VPDPBUSD.BCST (32*i+16)(R9), w, Z12   \
	VPDPBUSD.BCST (32*i+20)(R9), w, Z13   \
	VPDPBUSD.BCST (32*i+24)(R9), w, Z14   \
	VPDPBUSD.BCST (32*i+28)(R9), w, Z15

#define SCALE(t, ints, acc, tmp) \
	VCVTDQ2PS   ints, ints            \
	VMULPS.BCST (4*t)(R10), Z16, tmp  \
	VFMADD231PS ints, tmp, acc

#define END \
	VMOVUPS (R8), Z16        \
	SCALE(0, Z8, Z0, Z18)    \
	SCALE(1, Z9, Z1, Z19)    \
	SCALE(2, Z10, Z2, Z20)   \
	SCALE(3, Z11, Z3, Z21)   \
	SCALE(4, Z12, Z4, Z22)   \
	SCALE(5, Z13, Z5, Z23)   \
	SCALE(6, Z14, Z6, Z24)   \
	SCALE(7, Z15, Z7, Z25)   \
	ADDQ $64, R8

#define MINIMUM \
	VMOVUPS (BX), Z16                     \
	VFNMADD231PS.BCST (R11), Z16, Z0      \
	VFNMADD231PS.BCST 4(R11), Z16, Z1     \
	VFNMADD231PS.BCST 8(R11), Z16, Z2     \
	VFNMADD231PS.BCST 12(R11), Z16, Z3    \
	VFNMADD231PS.BCST 16(R11), Z16, Z4    \
	VFNMADD231PS.BCST 20(R11), Z16, Z5    \
	VFNMADD231PS.BCST 24(R11), Z16, Z6    \
	VFNMADD231PS.BCST 28(R11), Z16, Z7    \
	ADDQ $64, BX                          \
	ADDQ $32, R11

#define STORE(reg) \
	VMOVUPS reg, (DI) \
	ADDQ    AX, DI

#define FINISH \
	STORE(Z0)  \
	STORE(Z1)  \
	STORE(Z2)  \
	STORE(Z3)  \
	STORE(Z4)  \
	STORE(Z5)  \
	STORE(Z6)  \
	STORE(Z7)  \
	VZEROUPPER \
	RET

// func tileVNNI(y *float32, ldy int, w *int8, scale, minimum *float32, x *int8, d, sum *float32, fix *int32, groups int)
TEXT ·tileVNNI(SB), NOSPLIT, $0-80
	ARGS

loop:
	BEGIN
	UNIT(0, Z26)
	UNIT(1, Z27)
	UNIT(2, Z26)
	UNIT(3, Z27)
	UNIT(4, Z26)
	UNIT(5, Z27)
	UNIT(6, Z26)
	UNIT(7, Z27)
	END
	ADDQ  $512, SI
	ADDQ  $256, R9
	ADDQ  $32, R10
	TESTQ BX, BX
	JZ    next
	MINIMUM

next:
	DECQ CX
	JNZ  loop
	FINISH

// func tile16VNNI(y *float32, ldy int, w *int8, scale, minimum *float32, x *int8, d, sum *float32, fix *int32, groups int)
//
// Two scales for each group of 32, without minima.
TEXT ·tile16VNNI(SB), NOSPLIT, $0-80
	ARGS

loop:
	BEGIN
	UNIT(0, Z26)
	UNIT(1, Z27)
	UNIT(2, Z26)
	UNIT(3, Z27)
	END
	BEGIN
	UNIT(4, Z26)
	UNIT(5, Z27)
	UNIT(6, Z26)
	UNIT(7, Z27)
	END
	ADDQ $512, SI
	ADDQ $256, R9
	ADDQ $32, R10
	DECQ CX
	JNZ  loop
	FINISH
