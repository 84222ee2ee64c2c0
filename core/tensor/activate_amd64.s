//go:build amd64 && !purego

#include "textflag.h"

// Functions and arithmetic of single elements, 256 bits wide. Every n is a
// positive multiple of 8; the Go side does the rest.

// Constants, eight times each to serve as memory operands.
#define CONST8(name, value) \
	DATA name<>+0(SB)/4, value  \
	DATA name<>+4(SB)/4, value  \
	DATA name<>+8(SB)/4, value  \
	DATA name<>+12(SB)/4, value \
	DATA name<>+16(SB)/4, value \
	DATA name<>+20(SB)/4, value \
	DATA name<>+24(SB)/4, value \
	DATA name<>+28(SB)/4, value \
	GLOBL name<>(SB), RODATA|NOPTR, $32

CONST8(expLo, $0xc2aeac08) // -87.336
CONST8(expHi, $0x42b17217) // 88.72283, ln of the largest float32
CONST8(log2e, $0x3fb8aa3b) // 1/ln 2
CONST8(ln2Hi, $0x3f317200) // the upper bits of ln 2
CONST8(ln2Lo, $0x35bfbe8e) // the rest
CONST8(expC0, $0x39506967) // Cephes expf
CONST8(expC1, $0x3ab743ce)
CONST8(expC2, $0x3c088908)
CONST8(expC3, $0x3d2aa9c1)
CONST8(expC4, $0x3e2aaaaa)
CONST8(half, $0x3f000000) // 0.5
CONST8(one, $0x3f800000) // 1.0
CONST8(two, $0x40000000) // 2.0
CONST8(inf, $0x7f800000) // +Inf
CONST8(signBit, $0x80000000)
CONST8(magnitude, $0x7fffffff)
CONST8(tanhSplit, $0x3f200000) // 0.625
CONST8(tanhC0, $0xbbbaf0ea) // Cephes tanhf
CONST8(tanhC1, $0x3ca9134e) // 0.0206390887954
CONST8(tanhC2, $0xbd5c1e2d) // -0.0537397155531
CONST8(tanhC3, $0x3e088393) // 0.133314422036
CONST8(tanhC4, $0xbeaaaa99) // -0.333332819422
CONST8(erfC0, $0x38a4b519) // Cephes erff
CONST8(erfC1, $0xba51fb80) // -0.0008010193625184903
CONST8(erfC2, $0x3baa02d9) // 0.005188327685732524
CONST8(erfC3, $0xbcdbfc87) // -0.02685381193529856
CONST8(erfC4, $0x3de7167c) // 0.1128358514861418
CONST8(erfC5, $0xbec0939f) // -0.37612625824233
CONST8(erfC6, $0x3f906eba) // 1.12837916572671
CONST8(erfP, $0x3ea7ba05) // Abramowitz and Stegun, 7.1.26
CONST8(erfA1, $0x3e827906) // 0.254829592
CONST8(erfA2, $0xbe91a98e) // -0.284496736
CONST8(erfA3, $0x3fb5f0e3) // 1.421413741
CONST8(erfA4, $0xbfba00e3) // -1.453152027
CONST8(erfA5, $0x3f87dc22) // 1.061405429
CONST8(rootHalf, $0x3f3504f3) // 0.7071067811865476

// EXP: Y0 = exp(Y0), with Y1 to Y4 as scratch, as in vec_amd64.s.
#define EXP \
	VMAXPS       Y0, Y14, Y1          \
	VMINPS       Y1, Y15, Y1          \
	VMULPS       log2e<>(SB), Y1, Y2  \
	VROUNDPS     $8, Y2, Y2           \
	VFNMADD231PS ln2Hi<>(SB), Y2, Y1  \
	VFNMADD231PS ln2Lo<>(SB), Y2, Y1  \
	VMOVUPS      expC0<>(SB), Y3      \
	VFMADD213PS  expC1<>(SB), Y1, Y3  \
	VFMADD213PS  expC2<>(SB), Y1, Y3  \
	VFMADD213PS  expC3<>(SB), Y1, Y3  \
	VFMADD213PS  expC4<>(SB), Y1, Y3  \
	VFMADD213PS  half<>(SB), Y1, Y3   \
	VMULPS       Y1, Y1, Y4           \
	VFMADD213PS  Y1, Y4, Y3           \
	VADDPS       one<>(SB), Y3, Y3    \
	VCVTPS2DQ    Y2, Y2               \
	VPSLLD       $23, Y2, Y2          \
	VPADDD       Y2, Y3, Y3           \
	VCMPPS       $1, Y14, Y0, Y2      \
	VANDNPS      Y3, Y2, Y3           \
	VCMPPS       $14, Y15, Y0, Y2     \
	VBLENDVPS    Y2, inf<>(SB), Y3, Y0

#define EXPSETUP \
	VMOVUPS expLo<>(SB), Y14 \
	VMOVUPS expHi<>(SB), Y15

// ERF: Y0 = erf(Y0), with Y1 to Y8 as scratch: below 1 the polynomial of
// Cephes' erff, beyond it 1 - t·p(t)·e^(-x²).
#define ERF \
	VMOVAPS      Y0, Y5                   \
	VANDPS       magnitude<>(SB), Y5, Y6  \
	VMULPS       Y5, Y5, Y7               \
	VXORPS       signBit<>(SB), Y7, Y0    \
	EXP                                   \
	VMOVUPS      one<>(SB), Y1            \
	VMOVUPS      erfP<>(SB), Y2           \
	VFMADD213PS  Y1, Y6, Y2               \
	VDIVPS       Y2, Y1, Y2               \
	VMOVUPS      erfA5<>(SB), Y3          \
	VFMADD213PS  erfA4<>(SB), Y2, Y3      \
	VFMADD213PS  erfA3<>(SB), Y2, Y3      \
	VFMADD213PS  erfA2<>(SB), Y2, Y3      \
	VFMADD213PS  erfA1<>(SB), Y2, Y3      \
	VMULPS       Y2, Y3, Y3               \
	VFNMADD213PS Y1, Y3, Y0               \
	VANDPS       signBit<>(SB), Y5, Y4    \
	VORPS        Y4, Y0, Y0               \
	VMOVUPS      erfC0<>(SB), Y3          \
	VFMADD213PS  erfC1<>(SB), Y7, Y3      \
	VFMADD213PS  erfC2<>(SB), Y7, Y3      \
	VFMADD213PS  erfC3<>(SB), Y7, Y3      \
	VFMADD213PS  erfC4<>(SB), Y7, Y3      \
	VFMADD213PS  erfC5<>(SB), Y7, Y3      \
	VFMADD213PS  erfC6<>(SB), Y7, Y3      \
	VMULPS       Y5, Y3, Y3               \
	VCMPPS       $1, Y1, Y6, Y4           \
	VBLENDVPS    Y4, Y3, Y0, Y0

// TANH: Y0 = tanh(Y0), with Y1 to Y7 as scratch: near 0 Cephes' polynomial,
// elsewhere 1 - 2/(e^2|x| + 1).
#define TANH \
	VMOVAPS      Y0, Y5                   \
	VANDPS       magnitude<>(SB), Y5, Y6  \
	VADDPS       Y6, Y6, Y0               \
	EXP                                   \
	VMOVUPS      one<>(SB), Y1            \
	VADDPS       Y1, Y0, Y0               \
	VMOVUPS      two<>(SB), Y2            \
	VDIVPS       Y0, Y2, Y0               \
	VSUBPS       Y0, Y1, Y0               \
	VANDPS       signBit<>(SB), Y5, Y4    \
	VORPS        Y4, Y0, Y0               \
	VMULPS       Y5, Y5, Y7               \
	VMOVUPS      tanhC0<>(SB), Y3         \
	VFMADD213PS  tanhC1<>(SB), Y7, Y3     \
	VFMADD213PS  tanhC2<>(SB), Y7, Y3     \
	VFMADD213PS  tanhC3<>(SB), Y7, Y3     \
	VFMADD213PS  tanhC4<>(SB), Y7, Y3     \
	VMULPS       Y7, Y3, Y3               \
	VFMADD213PS  Y5, Y5, Y3               \
	VCMPPS       $1, tanhSplit<>(SB), Y6, Y4 \
	VBLENDVPS    Y4, Y3, Y0, Y0

// SIGMOID: Y0 = 1/(1 + e^-Y0), with Y1 to Y4 as scratch.
#define SIGMOID \
	VXORPS signBit<>(SB), Y0, Y0 \
	EXP                          \
	VMOVUPS one<>(SB), Y1        \
	VADDPS  Y1, Y0, Y0           \
	VDIVPS  Y0, Y1, Y0


// func expAVX2(dst, x *float32, n int)
TEXT ·expAVX2(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ n+16(FP), CX
	EXPSETUP

loop:
	VMOVUPS (SI), Y0
	EXP
	VMOVUPS Y0, (DI)
	ADDQ    $32, SI
	ADDQ    $32, DI
	SUBQ    $8, CX
	JNZ     loop
	VZEROUPPER
	RET

// func sigmoidAVX2(dst, x *float32, n int)
TEXT ·sigmoidAVX2(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ n+16(FP), CX
	EXPSETUP

loop:
	VMOVUPS (SI), Y0
	SIGMOID
	VMOVUPS Y0, (DI)
	ADDQ    $32, SI
	ADDQ    $32, DI
	SUBQ    $8, CX
	JNZ     loop
	VZEROUPPER
	RET

// func tanhAVX2(dst, x *float32, n int)
TEXT ·tanhAVX2(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ n+16(FP), CX
	EXPSETUP

loop:
	VMOVUPS (SI), Y0
	TANH
	VMOVUPS Y0, (DI)
	ADDQ    $32, SI
	ADDQ    $32, DI
	SUBQ    $8, CX
	JNZ     loop
	VZEROUPPER
	RET

// func erfAVX2(dst, x *float32, n int)
TEXT ·erfAVX2(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ n+16(FP), CX
	EXPSETUP

loop:
	VMOVUPS (SI), Y0
	ERF
	VMOVUPS Y0, (DI)
	ADDQ    $32, SI
	ADDQ    $32, DI
	SUBQ    $8, CX
	JNZ     loop
	VZEROUPPER
	RET

// func geluAVX2(dst, x *float32, n int): x·(1 + erf(x/√2))/2
TEXT ·geluAVX2(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ n+16(FP), CX
	EXPSETUP

loop:
	VMOVUPS (SI), Y0
	VMOVAPS Y0, Y9
	VMULPS  rootHalf<>(SB), Y0, Y0
	ERF
	VMULPS  half<>(SB), Y9, Y9
	VFMADD213PS Y9, Y9, Y0
	VMOVUPS Y0, (DI)
	ADDQ    $32, SI
	ADDQ    $32, DI
	SUBQ    $8, CX
	JNZ     loop
	VZEROUPPER
	RET

// func siluAVX2(dst, x *float32, n int): x·σ(x)
TEXT ·siluAVX2(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ n+16(FP), CX
	EXPSETUP

loop:
	VMOVUPS (SI), Y0
	VMOVAPS Y0, Y9
	SIGMOID
	VMULPS  Y9, Y0, Y0
	VMOVUPS Y0, (DI)
	ADDQ    $32, SI
	ADDQ    $32, DI
	SUBQ    $8, CX
	JNZ     loop
	VZEROUPPER
	RET

// func sqrtAVX2(dst, x *float32, n int)
TEXT ·sqrtAVX2(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ n+16(FP), CX

loop:
	VMOVUPS (SI), Y0
	VSQRTPS Y0, Y0
	VMOVUPS Y0, (DI)
	ADDQ    $32, SI
	ADDQ    $32, DI
	SUBQ    $8, CX
	JNZ     loop
	VZEROUPPER
	RET

// func hardSigmoidAVX2(dst, x *float32, n int, a, b float32): max(0, min(1, a·x + b))
TEXT ·hardSigmoidAVX2(SB), NOSPLIT, $0-32
	MOVQ dst+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ n+16(FP), CX
	VBROADCASTSS a+24(FP), Y12
	VBROADCASTSS b+28(FP), Y13
	VXORPS Y10, Y10, Y10
	VMOVUPS one<>(SB), Y11

loop:
	VMOVUPS (SI), Y0
	VFMADD213PS Y13, Y12, Y0
	VMAXPS  Y0, Y10, Y0
	VMINPS  Y0, Y11, Y0
	VMOVUPS Y0, (DI)
	ADDQ    $32, SI
	ADDQ    $32, DI
	SUBQ    $8, CX
	JNZ     loop
	VZEROUPPER
	RET

// func hardSwishAVX2(dst, x *float32, n int, a, b float32): x·max(0, min(1, a·x + b))
TEXT ·hardSwishAVX2(SB), NOSPLIT, $0-32
	MOVQ dst+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ n+16(FP), CX
	VBROADCASTSS a+24(FP), Y12
	VBROADCASTSS b+28(FP), Y13
	VXORPS Y10, Y10, Y10
	VMOVUPS one<>(SB), Y11

loop:
	VMOVUPS (SI), Y0
	VMOVAPS Y0, Y9
	VFMADD213PS Y13, Y12, Y0
	VMAXPS  Y0, Y10, Y0
	VMINPS  Y0, Y11, Y0
	VMULPS  Y9, Y0, Y0
	VMOVUPS Y0, (DI)
	ADDQ    $32, SI
	ADDQ    $32, DI
	SUBQ    $8, CX
	JNZ     loop
	VZEROUPPER
	RET

// func leakyAVX2(dst, x *float32, n int, a float32): max(x, 0) + a·min(x, 0)
TEXT ·leakyAVX2(SB), NOSPLIT, $0-28
	MOVQ dst+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ n+16(FP), CX
	VBROADCASTSS a+24(FP), Y12
	VXORPS Y10, Y10, Y10

loop:
	VMOVUPS (SI), Y0
	VMINPS Y0, Y10, Y1
	VMAXPS Y0, Y10, Y0
	VFMADD231PS Y1, Y12, Y0
	VMOVUPS Y0, (DI)
	ADDQ    $32, SI
	ADDQ    $32, DI
	SUBQ    $8, CX
	JNZ     loop
	VZEROUPPER
	RET

// func clipAVX2(dst, x *float32, n int, lo, hi float32)
TEXT ·clipAVX2(SB), NOSPLIT, $0-32
	MOVQ dst+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ n+16(FP), CX
	VBROADCASTSS lo+24(FP), Y12
	VBROADCASTSS hi+28(FP), Y13

loop:
	VMOVUPS (SI), Y0
	VMAXPS Y0, Y12, Y0
	VMINPS Y0, Y13, Y0
	VMOVUPS Y0, (DI)
	ADDQ    $32, SI
	ADDQ    $32, DI
	SUBQ    $8, CX
	JNZ     loop
	VZEROUPPER
	RET

// func linearAVX2(dst, x *float32, n int, a, b float32): a·x + b
TEXT ·linearAVX2(SB), NOSPLIT, $0-32
	MOVQ dst+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ n+16(FP), CX
	VBROADCASTSS a+24(FP), Y12
	VBROADCASTSS b+28(FP), Y13

loop:
	VMOVUPS (SI), Y0
	VFMADD213PS Y13, Y12, Y0
	VMOVUPS Y0, (DI)
	ADDQ    $32, SI
	ADDQ    $32, DI
	SUBQ    $8, CX
	JNZ     loop
	VZEROUPPER
	RET

// func addVecAVX2(dst, a, b *float32, n int)
TEXT ·addVecAVX2(SB), NOSPLIT, $0-32
	MOVQ dst+0(FP), DI
	MOVQ a+8(FP), SI
	MOVQ b+16(FP), DX
	MOVQ n+24(FP), CX

loop:
	VMOVUPS (SI), Y0
	VADDPS  (DX), Y0, Y0
	VMOVUPS Y0, (DI)
	ADDQ    $32, SI
	ADDQ    $32, DX
	ADDQ    $32, DI
	SUBQ    $8, CX
	JNZ     loop
	VZEROUPPER
	RET

// func mulVecAVX2(dst, a, b *float32, n int)
TEXT ·mulVecAVX2(SB), NOSPLIT, $0-32
	MOVQ dst+0(FP), DI
	MOVQ a+8(FP), SI
	MOVQ b+16(FP), DX
	MOVQ n+24(FP), CX

loop:
	VMOVUPS (SI), Y0
	VMULPS  (DX), Y0, Y0
	VMOVUPS Y0, (DI)
	ADDQ    $32, SI
	ADDQ    $32, DX
	ADDQ    $32, DI
	SUBQ    $8, CX
	JNZ     loop
	VZEROUPPER
	RET

// func subVecAVX2(dst, a, b *float32, n int)
TEXT ·subVecAVX2(SB), NOSPLIT, $0-32
	MOVQ dst+0(FP), DI
	MOVQ a+8(FP), SI
	MOVQ b+16(FP), DX
	MOVQ n+24(FP), CX

loop:
	VMOVUPS (SI), Y0
	VSUBPS  (DX), Y0, Y0
	VMOVUPS Y0, (DI)
	ADDQ    $32, SI
	ADDQ    $32, DX
	ADDQ    $32, DI
	SUBQ    $8, CX
	JNZ     loop
	VZEROUPPER
	RET

// func divVecAVX2(dst, a, b *float32, n int)
TEXT ·divVecAVX2(SB), NOSPLIT, $0-32
	MOVQ dst+0(FP), DI
	MOVQ a+8(FP), SI
	MOVQ b+16(FP), DX
	MOVQ n+24(FP), CX

loop:
	VMOVUPS (SI), Y0
	VDIVPS  (DX), Y0, Y0
	VMOVUPS Y0, (DI)
	ADDQ    $32, SI
	ADDQ    $32, DX
	ADDQ    $32, DI
	SUBQ    $8, CX
	JNZ     loop
	VZEROUPPER
	RET

// func subFromAVX2(dst, x *float32, n int, a float32): a - x
TEXT ·subFromAVX2(SB), NOSPLIT, $0-28
	MOVQ dst+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ n+16(FP), CX
	VBROADCASTSS a+24(FP), Y12

loop:
	VMOVUPS (SI), Y0
	VSUBPS Y0, Y12, Y0
	VMOVUPS Y0, (DI)
	ADDQ    $32, SI
	ADDQ    $32, DI
	SUBQ    $8, CX
	JNZ     loop
	VZEROUPPER
	RET

// func divFromAVX2(dst, x *float32, n int, a float32): a / x
TEXT ·divFromAVX2(SB), NOSPLIT, $0-28
	MOVQ dst+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ n+16(FP), CX
	VBROADCASTSS a+24(FP), Y12

loop:
	VMOVUPS (SI), Y0
	VDIVPS Y0, Y12, Y0
	VMOVUPS Y0, (DI)
	ADDQ    $32, SI
	ADDQ    $32, DI
	SUBQ    $8, CX
	JNZ     loop
	VZEROUPPER
	RET

// func divByAVX2(dst, x *float32, n int, a float32): x / a
TEXT ·divByAVX2(SB), NOSPLIT, $0-28
	MOVQ dst+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ n+16(FP), CX
	VBROADCASTSS a+24(FP), Y12

loop:
	VMOVUPS (SI), Y0
	VDIVPS Y12, Y0, Y0
	VMOVUPS Y0, (DI)
	ADDQ    $32, SI
	ADDQ    $32, DI
	SUBQ    $8, CX
	JNZ     loop
	VZEROUPPER
	RET

// func addToAVX2(dst, x *float32, n int, a float32): x + a
TEXT ·addToAVX2(SB), NOSPLIT, $0-28
	MOVQ dst+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ n+16(FP), CX
	VBROADCASTSS a+24(FP), Y12

loop:
	VMOVUPS (SI), Y0
	VADDPS Y12, Y0, Y0
	VMOVUPS Y0, (DI)
	ADDQ    $32, SI
	ADDQ    $32, DI
	SUBQ    $8, CX
	JNZ     loop
	VZEROUPPER
	RET

// func mulByAVX2(dst, x *float32, n int, a float32): x · a
TEXT ·mulByAVX2(SB), NOSPLIT, $0-28
	MOVQ dst+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ n+16(FP), CX
	VBROADCASTSS a+24(FP), Y12

loop:
	VMOVUPS (SI), Y0
	VMULPS Y12, Y0, Y0
	VMOVUPS Y0, (DI)
	ADDQ    $32, SI
	ADDQ    $32, DI
	SUBQ    $8, CX
	JNZ     loop
	VZEROUPPER
	RET

// func sumAVX2(x *float32, n int) float32
TEXT ·sumAVX2(SB), NOSPLIT, $0-20
	MOVQ   x+0(FP), SI
	MOVQ   n+8(FP), CX
	VXORPS Y0, Y0, Y0

loop:
	VADDPS (SI), Y0, Y0
	ADDQ   $32, SI
	SUBQ   $8, CX
	JNZ    loop
	VEXTRACTF128 $1, Y0, X1
	VADDPS       X1, X0, X0
	VPERMILPS    $0x4e, X0, X1
	VADDPS       X1, X0, X0
	VPERMILPS    $0xb1, X0, X1
	VADDPS       X1, X0, X0
	VMOVSS X0, ret+16(FP)
	VZEROUPPER
	RET

// func deviationAVX2(x *float32, n int, mean float32) float32: Σ (x - mean)²
TEXT ·deviationAVX2(SB), NOSPLIT, $0-28
	MOVQ         x+0(FP), SI
	MOVQ         n+8(FP), CX
	VBROADCASTSS mean+16(FP), Y3
	VXORPS       Y0, Y0, Y0

loop:
	VMOVUPS     (SI), Y2
	VSUBPS      Y3, Y2, Y2
	VFMADD231PS Y2, Y2, Y0
	ADDQ        $32, SI
	SUBQ        $8, CX
	JNZ         loop
	VEXTRACTF128 $1, Y0, X1
	VADDPS       X1, X0, X0
	VPERMILPS    $0x4e, X0, X1
	VADDPS       X1, X0, X0
	VPERMILPS    $0xb1, X0, X1
	VADDPS       X1, X0, X0
	VMOVSS X0, ret+24(FP)
	VZEROUPPER
	RET

// func normaliseAVX2(dst, x, gain, bias *float32, n int, mean, scale float32)
// dst = (x - mean)·scale·gain + bias
TEXT ·normaliseAVX2(SB), NOSPLIT, $0-48
	MOVQ         dst+0(FP), DI
	MOVQ         x+8(FP), SI
	MOVQ         gain+16(FP), DX
	MOVQ         bias+24(FP), BX
	MOVQ         n+32(FP), CX
	VBROADCASTSS mean+40(FP), Y3
	VBROADCASTSS scale+44(FP), Y4

loop:
	VMOVUPS     (SI), Y0
	VSUBPS      Y3, Y0, Y0
	VMULPS      Y4, Y0, Y0
	VMOVUPS     (DX), Y1
	VFMADD213PS (BX), Y1, Y0
	VMOVUPS     Y0, (DI)
	ADDQ        $32, SI
	ADDQ        $32, DX
	ADDQ        $32, BX
	ADDQ        $32, DI
	SUBQ        $8, CX
	JNZ         loop
	VZEROUPPER
	RET

// func lstmAVX2(h, c, i, o, f, u *float32, n int)
// c = σ(f)·c + σ(i)·tanh(g), h = σ(o)·tanh(c)
TEXT ·lstmAVX2(SB), NOSPLIT, $0-56
	MOVQ h+0(FP), DI
	MOVQ c+8(FP), BX
	MOVQ i+16(FP), SI
	MOVQ o+24(FP), R8
	MOVQ f+32(FP), R9
	MOVQ u+40(FP), R10
	MOVQ n+48(FP), CX
	EXPSETUP

loop:
	VMOVUPS     (R9), Y0
	SIGMOID
	VMULPS      (BX), Y0, Y9
	VMOVUPS     (SI), Y0
	SIGMOID
	VMOVAPS     Y0, Y10
	VMOVUPS     (R10), Y0
	TANH
	VFMADD231PS Y0, Y10, Y9
	VMOVUPS     Y9, (BX)
	VMOVUPS     (R8), Y0
	SIGMOID
	VMOVAPS     Y0, Y10
	VMOVAPS     Y9, Y0
	TANH
	VMULPS      Y10, Y0, Y0
	VMOVUPS     Y0, (DI)
	ADDQ        $32, DI
	ADDQ        $32, BX
	ADDQ        $32, SI
	ADDQ        $32, R8
	ADDQ        $32, R9
	ADDQ        $32, R10
	SUBQ        $8, CX
	JNZ         loop
	VZEROUPPER
	RET

// func fromBytesAVX2(dst *float32, src *uint8, n int)
TEXT ·fromBytesAVX2(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), CX

loop:
	VPMOVZXBD (SI), Y0
	VCVTDQ2PS Y0, Y0
	VMOVUPS   Y0, (DI)
	ADDQ      $8, SI
	ADDQ      $32, DI
	SUBQ      $8, CX
	JNZ       loop
	VZEROUPPER
	RET

// The low byte of each of four numbers, then of four more.
DATA lowBytes<>+0(SB)/8, $0x808080800c080400
DATA lowBytes<>+8(SB)/8, $0x8080808080808080
GLOBL lowBytes<>(SB), RODATA|NOPTR, $16

// func toBytesAVX2(dst *uint8, src *float32, n int): the low bytes of the
// numbers truncated to integers.
TEXT ·toBytesAVX2(SB), NOSPLIT, $0-24
	MOVQ    dst+0(FP), DI
	MOVQ    src+8(FP), SI
	MOVQ    n+16(FP), CX
	VMOVDQU lowBytes<>(SB), X3

loop:
	VCVTTPS2DQ (SI), Y0
	VEXTRACTI128 $1, Y0, X1
	VPSHUFB    X3, X0, X0
	VPSHUFB    X3, X1, X1
	VPUNPCKLDQ X1, X0, X0
	VMOVQ      X0, (DI)
	ADDQ       $32, SI
	ADDQ       $8, DI
	SUBQ       $8, CX
	JNZ        loop
	VZEROUPPER
	RET
