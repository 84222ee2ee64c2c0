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
