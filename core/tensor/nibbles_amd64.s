//go:build amd64 && !purego

#include "textflag.h"

// func nibblesAVX512(x *float32, w *byte, scales *float32, n, per int) float32
TEXT ·nibblesAVX512(SB), NOSPLIT, $0-44
	MOVQ x+0(FP), DI
	MOVQ w+8(FP), SI
	MOVQ scales+16(FP), R8
	MOVQ n+24(FP), CX
	MOVQ per+32(FP), R9
	MOVL $15, AX
	VPBROADCASTD AX, Z15
	VPXORD Z0, Z0, Z0
	VPXORD Z8, Z8, Z8

block:
	MOVQ   R9, DX
	VPXORD Z1, Z1, Z1
	VPXORD Z2, Z2, Z2

group:
	VPMOVZXBD   (SI), Z3
	VPSRLD      $4, Z3, Z4
	VPANDD      Z15, Z3, Z3
	VCVTDQ2PS   Z3, Z3
	VCVTDQ2PS   Z4, Z4
	VFMADD231PS (DI), Z3, Z1
	VFMADD231PS 64(DI), Z4, Z2
	ADDQ        $16, SI
	ADDQ        $128, DI
	DECQ        DX
	JNZ         group
	VFMADD231PS.BCST (R8), Z1, Z0
	VFMADD231PS.BCST (R8), Z2, Z8
	ADDQ        $4, R8
	DECQ        CX
	JNZ         block
	VADDPS        Z8, Z0, Z0
	VEXTRACTF64X4 $1, Z0, Y1
	VADDPS        Y1, Y0, Y0
	VEXTRACTF128  $1, Y0, X1
	VADDPS        X1, X0, X0
	VHADDPS       X0, X0, X0
	VHADDPS       X0, X0, X0
	VMOVSS        X0, ret+40(FP)
	VZEROUPPER
	RET

// func nibblesAVX2(x *float32, w *byte, scales *float32, n, per int) float32
TEXT ·nibblesAVX2(SB), NOSPLIT, $0-44
	MOVQ x+0(FP), DI
	MOVQ w+8(FP), SI
	MOVQ scales+16(FP), R8
	MOVQ n+24(FP), CX
	MOVQ per+32(FP), R9
	MOVL $15, AX
	VMOVD AX, X15
	VPBROADCASTD X15, Y15
	VXORPS Y0, Y0, Y0
	VXORPS Y8, Y8, Y8

block:
	MOVQ   R9, DX
	VXORPS Y1, Y1, Y1
	VXORPS Y2, Y2, Y2

group:
	VPMOVZXBD   (SI), Y3
	VPMOVZXBD   8(SI), Y5
	VPSRLD      $4, Y3, Y4
	VPSRLD      $4, Y5, Y6
	VPAND       Y15, Y3, Y3
	VPAND       Y15, Y5, Y5
	VCVTDQ2PS   Y3, Y3
	VCVTDQ2PS   Y4, Y4
	VCVTDQ2PS   Y5, Y5
	VCVTDQ2PS   Y6, Y6
	VFMADD231PS (DI), Y3, Y1
	VFMADD231PS 64(DI), Y4, Y2
	VFMADD231PS 32(DI), Y5, Y1
	VFMADD231PS 96(DI), Y6, Y2
	ADDQ        $16, SI
	ADDQ        $128, DI
	DECQ        DX
	JNZ         group
	VBROADCASTSS (R8), Y7
	VFMADD231PS Y7, Y1, Y0
	VFMADD231PS Y7, Y2, Y8
	ADDQ        $4, R8
	DECQ        CX
	JNZ         block
	VADDPS        Y8, Y0, Y0
	VEXTRACTF128  $1, Y0, X1
	VADDPS        X1, X0, X0
	VHADDPS       X0, X0, X0
	VHADDPS       X0, X0, X0
	VMOVSS        X0, ret+40(FP)
	VZEROUPPER
	RET

// FOUR adds the products of a group with one row of x.
#define FOUR(row, acc) \
	VFMADD231PS (row), Z3, acc \
	VFMADD231PS 64(row), Z4, acc

// SUM stores the sum of the lanes of z at off(R13).
#define SUM(z, y, x, off) \
	VEXTRACTF64X4 $1, z, Y5 \
	VADDPS        Y5, y, y \
	VEXTRACTF128  $1, y, X5 \
	VADDPS        X5, x, x \
	VHADDPS       x, x, x \
	VHADDPS       x, x, x \
	VMOVSS        x, off(R13)

// func nibbles4AVX512(dst, x *float32, ldx uintptr, w *byte, scales *float32, n, per int)
TEXT ·nibbles4AVX512(SB), NOSPLIT, $0-56
	MOVQ dst+0(FP), R13
	MOVQ x+8(FP), DI
	MOVQ ldx+16(FP), R10
	MOVQ w+24(FP), SI
	MOVQ scales+32(FP), R8
	MOVQ n+40(FP), CX
	MOVQ per+48(FP), R9
	LEAQ (DI)(R10*1), R11
	LEAQ (DI)(R10*2), R12
	LEAQ (R11)(R10*2), BX
	MOVL $15, AX
	VPBROADCASTD AX, Z15
	VPXORD Z16, Z16, Z16
	VPXORD Z17, Z17, Z17
	VPXORD Z18, Z18, Z18
	VPXORD Z19, Z19, Z19

block:
	MOVQ   R9, DX
	VPXORD Z8, Z8, Z8
	VPXORD Z9, Z9, Z9
	VPXORD Z10, Z10, Z10
	VPXORD Z11, Z11, Z11

group:
	VPMOVZXBD (SI), Z3
	VPSRLD    $4, Z3, Z4
	VPANDD    Z15, Z3, Z3
	VCVTDQ2PS Z3, Z3
	VCVTDQ2PS Z4, Z4
	FOUR(DI, Z8)
	FOUR(R11, Z9)
	FOUR(R12, Z10)
	FOUR(BX, Z11)
	ADDQ      $16, SI
	ADDQ      $128, DI
	ADDQ      $128, R11
	ADDQ      $128, R12
	ADDQ      $128, BX
	DECQ      DX
	JNZ       group
	VBROADCASTSS (R8), Z7
	VFMADD231PS  Z7, Z8, Z16
	VFMADD231PS  Z7, Z9, Z17
	VFMADD231PS  Z7, Z10, Z18
	VFMADD231PS  Z7, Z11, Z19
	ADDQ      $4, R8
	DECQ      CX
	JNZ       block
	VMOVAPS   Z16, Z0
	SUM(Z0, Y0, X0, 0)
	VMOVAPS   Z17, Z0
	SUM(Z0, Y0, X0, 4)
	VMOVAPS   Z18, Z0
	SUM(Z0, Y0, X0, 8)
	VMOVAPS   Z19, Z0
	SUM(Z0, Y0, X0, 12)
	VZEROUPPER
	RET

// func unpackAVX512(dst *float32, w *byte, groups int, zero, by float32)
TEXT ·unpackAVX512(SB), NOSPLIT, $0-32
	MOVQ dst+0(FP), DI
	MOVQ w+8(FP), SI
	MOVQ groups+16(FP), CX
	VBROADCASTSS zero+24(FP), Z1
	VBROADCASTSS by+28(FP), Z2
	MOVL $15, AX
	VPBROADCASTD AX, Z15

group:
	VPMOVZXBD (SI), Z3
	VPSRLD    $4, Z3, Z4
	VPANDD    Z15, Z3, Z3
	VCVTDQ2PS Z3, Z3
	VCVTDQ2PS Z4, Z4
	VSUBPS    Z1, Z3, Z3
	VSUBPS    Z1, Z4, Z4
	VMULPS    Z2, Z3, Z3
	VMULPS    Z2, Z4, Z4
	VMOVUPS   Z3, (DI)
	VMOVUPS   Z4, 64(DI)
	ADDQ      $16, SI
	ADDQ      $128, DI
	DECQ      CX
	JNZ       group
	VZEROUPPER
	RET
