//go:build amd64 && !purego

#include "textflag.h"

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

CONST8(expLo, $0xc2aeac08)    // -87.336
CONST8(expHi, $0x42b17217)    // 88.72283, ln of the largest float32
CONST8(log2e, $0x3fb8aa3b)    // 1/ln 2
CONST8(ln2Hi, $0x3f317200)    // the upper bits of ln 2: n·ln2Hi is exact
CONST8(ln2Lo, $0x35bfbe8e)    // the rest of ln 2
CONST8(expC0, $0x39506967)    // 1.9875691500e-4, Cephes expf
CONST8(expC1, $0x3ab743ce)    // 1.3981999507e-3
CONST8(expC2, $0x3c088908)    // 8.3334519073e-3
CONST8(expC3, $0x3d2aa9c1)    // 4.1665795894e-2
CONST8(expC4, $0x3e2aaaaa)    // 1.6666665459e-1
CONST8(expC5, $0x3f000000)    // 5.0000001201e-1
CONST8(one, $0x3f800000)      // 1
CONST8(inf, $0x7f800000)      // +Inf
CONST8(negInf, $0xff800000)   // -Inf
CONST8(signBit, $0x80000000)

// EXP: Y0 = exp(Y0), with Y1 to Y4 as scratch. x = n·ln 2 + r with |r| ≤
// ln 2 / 2; e^r is Cephes' polynomial; n is added to its exponent.
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
	VFMADD213PS  expC5<>(SB), Y1, Y3  \
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

// HSUM: the sum of Y0's lanes in X0, with X1 as scratch.
#define HSUM \
	VEXTRACTF128 $1, Y0, X1     \
	VADDPS       X1, X0, X0     \
	VPERMILPS    $0x4e, X0, X1  \
	VADDPS       X1, X0, X0     \
	VPERMILPS    $0xb1, X0, X1  \
	VADDPS       X1, X0, X0

// func dotAVX2(a, b *float32, n int) float32
TEXT ·dotAVX2(SB), NOSPLIT, $0-28
	MOVQ   a+0(FP), SI
	MOVQ   b+8(FP), DI
	MOVQ   n+16(FP), CX
	VXORPS Y0, Y0, Y0
	VXORPS Y1, Y1, Y1
	VXORPS Y2, Y2, Y2
	VXORPS Y3, Y3, Y3
	SUBQ   $32, CX
	JLT    tail

loop:
	VMOVUPS     (SI), Y4
	VMOVUPS     32(SI), Y5
	VMOVUPS     64(SI), Y6
	VMOVUPS     96(SI), Y7
	VFMADD231PS (DI), Y4, Y0
	VFMADD231PS 32(DI), Y5, Y1
	VFMADD231PS 64(DI), Y6, Y2
	VFMADD231PS 96(DI), Y7, Y3
	ADDQ        $128, SI
	ADDQ        $128, DI
	SUBQ        $32, CX
	JGE         loop

tail:
	ADDQ $32, CX
	JZ   done

tailLoop:
	VMOVUPS     (SI), Y4
	VFMADD231PS (DI), Y4, Y0
	ADDQ        $32, SI
	ADDQ        $32, DI
	SUBQ        $8, CX
	JNZ         tailLoop

done:
	VADDPS Y2, Y0, Y0
	VADDPS Y3, Y1, Y1
	VADDPS Y1, Y0, Y0
	HSUM
	VMOVSS X0, ret+24(FP)
	VZEROUPPER
	RET

// func axpyAVX2(y, x *float32, n int, a float32)
TEXT ·axpyAVX2(SB), NOSPLIT, $0-28
	MOVQ         y+0(FP), DI
	MOVQ         x+8(FP), SI
	MOVQ         n+16(FP), CX
	VBROADCASTSS a+24(FP), Y0

loop:
	VMOVUPS     (DI), Y1
	VFMADD231PS (SI), Y0, Y1
	VMOVUPS     Y1, (DI)
	ADDQ        $32, SI
	ADDQ        $32, DI
	SUBQ        $8, CX
	JNZ         loop
	VZEROUPPER
	RET

// func addAVX2(y, x *float32, n int)
TEXT ·addAVX2(SB), NOSPLIT, $0-24
	MOVQ y+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ n+16(FP), CX

loop:
	VMOVUPS (DI), Y1
	VADDPS  (SI), Y1, Y1
	VMOVUPS Y1, (DI)
	ADDQ    $32, SI
	ADDQ    $32, DI
	SUBQ    $8, CX
	JNZ     loop
	VZEROUPPER
	RET

// func scaleAVX2(x *float32, n int, a float32)
TEXT ·scaleAVX2(SB), NOSPLIT, $0-20
	MOVQ         x+0(FP), DI
	MOVQ         n+8(FP), CX
	VBROADCASTSS a+16(FP), Y0

loop:
	VMULPS  (DI), Y0, Y1
	VMOVUPS Y1, (DI)
	ADDQ    $32, DI
	SUBQ    $8, CX
	JNZ     loop
	VZEROUPPER
	RET

// func maxAVX2(x *float32, n int) float32
TEXT ·maxAVX2(SB), NOSPLIT, $0-20
	MOVQ    x+0(FP), SI
	MOVQ    n+8(FP), CX
	VMOVUPS negInf<>(SB), Y0

loop:
	VMOVUPS (SI), Y1
	VMAXPS  Y0, Y1, Y0 // a NaN in x leaves Y0
	ADDQ    $32, SI
	SUBQ    $8, CX
	JNZ     loop
	VEXTRACTF128 $1, Y0, X1
	VMAXPS       X1, X0, X0
	VPERMILPS    $0x4e, X0, X1
	VMAXPS       X1, X0, X0
	VPERMILPS    $0xb1, X0, X1
	VMAXPS       X1, X0, X0
	VMOVSS       X0, ret+16(FP)
	VZEROUPPER
	RET

// func expSumAVX2(dst, x *float32, n int, sub float32) float32
TEXT ·expSumAVX2(SB), NOSPLIT, $0-36
	MOVQ         dst+0(FP), DI
	MOVQ         x+8(FP), SI
	MOVQ         n+16(FP), CX
	VBROADCASTSS sub+24(FP), Y12
	VXORPS       Y13, Y13, Y13
	EXPSETUP

loop:
	VMOVUPS (SI), Y0
	VSUBPS  Y12, Y0, Y0
	EXP
	VMOVUPS Y0, (DI)
	VADDPS  Y0, Y13, Y13
	ADDQ    $32, SI
	ADDQ    $32, DI
	SUBQ    $8, CX
	JNZ     loop
	VMOVAPS Y13, Y0
	HSUM
	VMOVSS  X0, ret+32(FP)
	VZEROUPPER
	RET

// func mulScaledAVX2(dst, x, gain *float32, n int, a float32)
TEXT ·mulScaledAVX2(SB), NOSPLIT, $0-36
	MOVQ         dst+0(FP), DI
	MOVQ         x+8(FP), SI
	MOVQ         gain+16(FP), DX
	MOVQ         n+24(FP), CX
	VBROADCASTSS a+32(FP), Y0

loop:
	VMULPS  (SI), Y0, Y1
	VMULPS  (DX), Y1, Y1
	VMOVUPS Y1, (DI)
	ADDQ    $32, SI
	ADDQ    $32, DX
	ADDQ    $32, DI
	SUBQ    $8, CX
	JNZ     loop
	VZEROUPPER
	RET

// func siluMulAVX2(dst, gate, up *float32, n int)
TEXT ·siluMulAVX2(SB), NOSPLIT, $0-32
	MOVQ    dst+0(FP), DI
	MOVQ    gate+8(FP), SI
	MOVQ    up+16(FP), DX
	MOVQ    n+24(FP), CX
	EXPSETUP
	VMOVUPS signBit<>(SB), Y12

loop:
	VMOVUPS (SI), Y11
	VXORPS  Y12, Y11, Y0
	EXP
	VADDPS  one<>(SB), Y0, Y0
	VDIVPS  Y0, Y11, Y0
	VMULPS  (DX), Y0, Y0
	VMOVUPS Y0, (DI)
	ADDQ    $32, SI
	ADDQ    $32, DX
	ADDQ    $32, DI
	SUBQ    $8, CX
	JNZ     loop
	VZEROUPPER
	RET

// func ropePairsAVX2(x, cos, sin *float32, n int)
TEXT ·ropePairsAVX2(SB), NOSPLIT, $0-32
	MOVQ x+0(FP), DI
	MOVQ cos+8(FP), SI
	MOVQ sin+16(FP), DX
	MOVQ n+24(FP), CX

loop:
	// Each cosine and sine twice, aligned with the pair that it rotates.
	VMOVUPS     (SI), X2
	VMOVUPS     (DX), X3
	VPERMILPS   $0x50, X2, X4 // c0 c0 c1 c1
	VPERMILPS   $0xfa, X2, X5 // c2 c2 c3 c3
	VINSERTF128 $1, X5, Y4, Y4
	VPERMILPS   $0x50, X3, X6
	VPERMILPS   $0xfa, X3, X7
	VINSERTF128 $1, X7, Y6, Y6
	VMOVUPS     (DI), Y0
	VPERMILPS   $0xb1, Y0, Y1 // b0 a0 b1 a1 …
	VMULPS      Y6, Y1, Y1
	VFMADDSUB213PS Y1, Y4, Y0 // a·c - b·s, b·c + a·s
	VMOVUPS     Y0, (DI)
	ADDQ        $16, SI
	ADDQ        $16, DX
	ADDQ        $32, DI
	SUBQ        $4, CX
	JNZ         loop
	VZEROUPPER
	RET

// func ropeHalvesAVX2(lo, hi, cos, sin *float32, n int)
TEXT ·ropeHalvesAVX2(SB), NOSPLIT, $0-40
	MOVQ lo+0(FP), DI
	MOVQ hi+8(FP), SI
	MOVQ cos+16(FP), DX
	MOVQ sin+24(FP), BX
	MOVQ n+32(FP), CX

loop:
	VMOVUPS      (DI), Y0
	VMOVUPS      (SI), Y1
	VMOVUPS      (DX), Y2
	VMOVUPS      (BX), Y3
	VMULPS       Y3, Y1, Y4
	VFMSUB231PS  Y2, Y0, Y4 // lo·c - hi·s
	VMULPS       Y2, Y1, Y5
	VFMADD231PS  Y3, Y0, Y5 // hi·c + lo·s
	VMOVUPS      Y4, (DI)
	VMOVUPS      Y5, (SI)
	ADDQ         $32, DI
	ADDQ         $32, SI
	ADDQ         $32, DX
	ADDQ         $32, BX
	SUBQ         $8, CX
	JNZ          loop
	VZEROUPPER
	RET

// func fromF16AVX2(dst *float32, src *byte, n int)
TEXT ·fromF16AVX2(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), CX

loop:
	VCVTPH2PS (SI), Y0
	VMOVUPS   Y0, (DI)
	ADDQ      $16, SI
	ADDQ      $32, DI
	SUBQ      $8, CX
	JNZ       loop
	VZEROUPPER
	RET

// func toF16AVX2(dst *byte, src *float32, n int)
TEXT ·toF16AVX2(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), CX

loop:
	VMOVUPS   (SI), Y0
	VCVTPS2PH $0, Y0, (DI)
	ADDQ      $32, SI
	ADDQ      $16, DI
	SUBQ      $8, CX
	JNZ       loop
	VZEROUPPER
	RET

// func fromBF16AVX2(dst *float32, src *byte, n int)
TEXT ·fromBF16AVX2(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), CX

loop:
	VPMOVZXWD (SI), Y0
	VPSLLD    $16, Y0, Y0
	VMOVUPS   Y0, (DI)
	ADDQ      $16, SI
	ADDQ      $32, DI
	SUBQ      $8, CX
	JNZ       loop
	VZEROUPPER
	RET
