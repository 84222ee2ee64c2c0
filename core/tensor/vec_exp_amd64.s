//go:build amd64 && !purego

#include "textflag.h"

// The constants of vec_amd64.s, one after the other; the limits are beyond
// those of the results, which VSCALEFPS makes Inf of.
DATA exps<>+0(SB)/4, $0xc2aeac08  // -87.336, below which the result is 0
DATA exps<>+4(SB)/4, $0x42c80000  // 100
DATA exps<>+8(SB)/4, $0x3fb8aa3b  // 1/ln 2
DATA exps<>+12(SB)/4, $0x3f317200 // the upper bits of ln 2
DATA exps<>+16(SB)/4, $0x35bfbe8e // the rest of ln 2
DATA exps<>+20(SB)/4, $0x39506967
DATA exps<>+24(SB)/4, $0x3ab743ce
DATA exps<>+28(SB)/4, $0x3c088908
DATA exps<>+32(SB)/4, $0x3d2aa9c1
DATA exps<>+36(SB)/4, $0x3e2aaaaa
DATA exps<>+40(SB)/4, $0x3f000000
DATA exps<>+44(SB)/4, $0x3f800000
DATA exps<>+48(SB)/4, $0xff800000
GLOBL exps<>(SB), RODATA|NOPTR, $52

// EXP512 sets x to exp(x - sub) with r, n, p and q as scratch.
#define EXP512(x, r, n, p, q) \
	VSUBPS        Z12, x, x      \
	VMAXPS        x, Z14, r      \
	VMINPS        r, Z15, r      \
	VMULPS        Z16, r, n      \
	VRNDSCALEPS   $8, n, n       \
	VFNMADD231PS  Z17, n, r      \
	VFNMADD231PS  Z18, n, r      \
	VMOVAPS       Z19, p         \
	VFMADD213PS   Z20, r, p      \
	VMULPS        r, r, q        \
	VFMADD213PS   Z21, r, p      \
	VFMADD213PS   Z22, r, p      \
	VFMADD213PS   Z23, r, p      \
	VFMADD213PS   Z24, r, p      \
	VFMADD213PS   r, q, p        \
	VADDPS        Z25, p, p      \
	VCMPPS        $5, Z14, x, K1 \
	VSCALEFPS.Z   n, p, K1, x

// func expSumAVX512(dst, x *float32, n int, sub float32) float32
TEXT ·expSumAVX512(SB), NOSPLIT, $0-36
	MOVQ         dst+0(FP), DI
	MOVQ         x+8(FP), SI
	MOVQ         n+16(FP), CX
	VBROADCASTSS sub+24(FP), Z12
	VBROADCASTSS exps<>+0(SB), Z14
	VBROADCASTSS exps<>+4(SB), Z15
	VBROADCASTSS exps<>+8(SB), Z16
	VBROADCASTSS exps<>+12(SB), Z17
	VBROADCASTSS exps<>+16(SB), Z18
	VBROADCASTSS exps<>+20(SB), Z19
	VBROADCASTSS exps<>+24(SB), Z20
	VBROADCASTSS exps<>+28(SB), Z21
	VBROADCASTSS exps<>+32(SB), Z22
	VBROADCASTSS exps<>+36(SB), Z23
	VBROADCASTSS exps<>+40(SB), Z24
	VBROADCASTSS exps<>+44(SB), Z25
	VPXORD       Z13, Z13, Z13
	SUBQ         $16, CX
	JLT          rest

loop:
	VMOVUPS (SI), Z0
	EXP512(Z0, Z1, Z2, Z3, Z4)
	VMOVUPS Z0, (DI)
	VADDPS  Z0, Z13, Z13
	ADDQ    $64, SI
	ADDQ    $64, DI
	SUBQ    $16, CX
	JGE     loop

rest:
	ADDQ         $16, CX
	JZ           done
	MOVL         $0xff, AX
	KMOVW        AX, K2
	VBROADCASTSS exps<>+48(SB), Z0
	VMOVUPS      (SI), K2, Z0
	EXP512(Z0, Z1, Z2, Z3, Z4)
	VMOVUPS      Z0, K2, (DI)
	VADDPS       Z0, Z13, Z13

done:
	VEXTRACTF64X4 $1, Z13, Y1
	VADDPS        Y1, Y13, Y0
	VEXTRACTF128  $1, Y0, X1
	VADDPS        X1, X0, X0
	VPERMILPS     $0x4e, X0, X1
	VADDPS        X1, X0, X0
	VPERMILPS     $0xb1, X0, X1
	VADDPS        X1, X0, X0
	VMOVSS        X0, ret+32(FP)
	VZEROUPPER
	RET
