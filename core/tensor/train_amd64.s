//go:build amd64 && !purego

#include "textflag.h"

// Vector kernels of training, 256 bits wide. Every n is a multiple of 8 and at
// least 8; the Go side does the rest.

#define CONST(name, bits) \
	DATA name<>+0(SB)/4, $bits; \
	GLOBL name<>(SB), RODATA|NOPTR, $4

CONST(expHi, 0x42b00000)  // 88
CONST(expLo, 0xc2aeac4f)  // -87.33654, below which e^x is subnormal
CONST(log2e, 0x3fb8aa3b)  // 1/ln 2
CONST(round, 0x4b400000)  // 1.5·2²³: adding it rounds to an integer
CONST(ln2Hi, 0x3f318000)  // 0.693359375
CONST(ln2Lo, 0xb95e8083)  // ln 2 - ln2Hi
CONST(half, 0x3f000000)   // 0.5
CONST(one, 0x3f800000)    // 1
CONST(signBit, 0x80000000)

// The upper coefficients of the polynomial, as full vectors.
#define CONST8(name, bits) \
	DATA name<>+0(SB)/4, $bits; \
	DATA name<>+4(SB)/4, $bits; \
	DATA name<>+8(SB)/4, $bits; \
	DATA name<>+12(SB)/4, $bits; \
	DATA name<>+16(SB)/4, $bits; \
	DATA name<>+20(SB)/4, $bits; \
	DATA name<>+24(SB)/4, $bits; \
	DATA name<>+28(SB)/4, $bits; \
	GLOBL name<>(SB), RODATA|NOPTR, $32

CONST8(expC5, 0x39506967) // 1.9875691500e-4
CONST8(expC4, 0x3ab743ce) // 1.3981999507e-3
CONST8(expC3, 0x3c088908) // 8.3334519073e-3
CONST8(expC2, 0x3d2aa9c1) // 4.1665795894e-2
CONST8(expC1, 0x3e2aaaaa) // 1.6666665459e-1

// EXPCONSTS loads what EXP needs into Y8…Y15.
#define EXPCONSTS \
	VBROADCASTSS expHi<>(SB), Y8; \
	VBROADCASTSS expLo<>(SB), Y9; \
	VBROADCASTSS log2e<>(SB), Y10; \
	VBROADCASTSS ln2Hi<>(SB), Y11; \
	VBROADCASTSS ln2Lo<>(SB), Y12; \
	VBROADCASTSS half<>(SB), Y13; \
	VBROADCASTSS one<>(SB), Y14; \
	VBROADCASTSS round<>(SB), Y15

// EXP replaces x by e to the x, x between Y9 and Y8: x = n·ln 2 + r, e^r by the
// polynomial of Cephes' expf, and n added to the exponent's bits. a and b are
// scratch. Relative error below 2e-7.
#define EXP(x, a, b) \
	VMOVAPS Y15, a; \
	VFMADD231PS Y10, x, a; \
	VSUBPS Y15, a, b; \
	VFNMADD231PS Y11, b, x; \
	VFNMADD231PS Y12, b, x; \
	VPSLLD $23, a, a; \
	VMOVUPS expC5<>(SB), b; \
	VFMADD213PS expC4<>(SB), x, b; \
	VFMADD213PS expC3<>(SB), x, b; \
	VFMADD213PS expC2<>(SB), x, b; \
	VFMADD213PS expC1<>(SB), x, b; \
	VFMADD213PS Y13, x, b; \
	VFMADD213PS Y14, x, b; \
	VFMADD213PS Y14, x, b; \
	VPADDD b, a, x

#define CLAMP(x) \
	VMINPS Y8, x, x; \
	VMAXPS Y9, x, x

// HSUM adds the lanes of Y0 into X0; X1 is scratch.
#define HSUM \
	VEXTRACTF128 $1, Y0, X1; \
	VADDPS X1, X0, X0; \
	VMOVHLPS X0, X0, X1; \
	VADDPS X1, X0, X0; \
	VMOVSHDUP X0, X1; \
	VADDSS X1, X0, X0

// func trainDot3(n int, x, y, z *float32) float32
TEXT ·trainDot3(SB), NOSPLIT, $0-36
	MOVQ n+0(FP), CX
	MOVQ x+8(FP), SI
	MOVQ y+16(FP), DI
	MOVQ z+24(FP), DX
	VXORPS Y0, Y0, Y0

loop:
	VMOVUPS (SI), Y2
	VMULPS (DI), Y2, Y2
	VFMADD231PS (DX), Y2, Y0
	ADDQ $32, SI
	ADDQ $32, DI
	ADDQ $32, DX
	SUBQ $8, CX
	JNZ  loop
	HSUM
	VMOVSS X0, ret+32(FP)
	VZEROUPPER
	RET

// func trainSwiGLUBackward(n int, dh, gate, up, dgate, dup *float32)
// With s = σ(gate): dup = dh·gate·s, dgate = dh·up·s·(1 + gate·(1-s)).
// The rows are long gone from the near caches: they are fetched ahead.
TEXT ·trainSwiGLUBackward(SB), NOSPLIT, $0-48
	MOVQ n+0(FP), CX
	MOVQ dh+8(FP), R8
	MOVQ gate+16(FP), SI
	MOVQ up+24(FP), DX
	MOVQ dgate+32(FP), DI
	MOVQ dup+40(FP), BX
	EXPCONSTS
	VBROADCASTSS signBit<>(SB), Y7

loop:
	PREFETCHT0 512(SI)
	PREFETCHT0 512(DX)
	PREFETCHT0 512(DI)
	PREFETCHT0 512(BX)
	VMOVUPS (SI), Y3
	VXORPS Y7, Y3, Y0
	CLAMP(Y0)
	EXP(Y0, Y1, Y2)
	VADDPS Y14, Y0, Y0
	VDIVPS Y0, Y14, Y0 // s
	VMOVUPS (R8), Y4   // dh
	VMULPS Y0, Y4, Y5  // dh·s
	VMULPS Y3, Y5, Y6  // dh·s·gate
	VSUBPS Y0, Y14, Y1 // 1-s
	VFMADD213PS Y14, Y3, Y1
	VMULPS (DX), Y5, Y5
	VMULPS Y1, Y5, Y5
	VMOVUPS Y5, (DI)
	VMOVUPS Y6, (BX)
	ADDQ $32, SI
	ADDQ $32, DX
	ADDQ $32, DI
	ADDQ $32, BX
	ADDQ $32, R8
	SUBQ $8, CX
	JNZ  loop
	VZEROUPPER
	RET

// func trainReLU2(n int, x, h *float32): h = max(x, 0)²
TEXT ·trainReLU2(SB), NOSPLIT, $0-24
	MOVQ n+0(FP), CX
	MOVQ x+8(FP), SI
	MOVQ h+16(FP), DI
	VXORPS Y1, Y1, Y1

loop:
	VMAXPS (SI), Y1, Y0
	VMULPS Y0, Y0, Y0
	VMOVUPS Y0, (DI)
	ADDQ $32, SI
	ADDQ $32, DI
	SUBQ $8, CX
	JNZ  loop
	VZEROUPPER
	RET

// func trainReLU2Backward(n int, dh, x, dx *float32): dx = 2·dh·max(x, 0)
TEXT ·trainReLU2Backward(SB), NOSPLIT, $0-32
	MOVQ n+0(FP), CX
	MOVQ dh+8(FP), DX
	MOVQ x+16(FP), SI
	MOVQ dx+24(FP), DI
	VXORPS Y1, Y1, Y1

loop:
	VMAXPS (SI), Y1, Y0
	VADDPS Y0, Y0, Y0
	VMULPS (DX), Y0, Y0
	VMOVUPS Y0, (DI)
	ADDQ $32, DX
	ADDQ $32, SI
	ADDQ $32, DI
	SUBQ $8, CX
	JNZ  loop
	VZEROUPPER
	RET

// func trainAddSquares(n int, skip, x *float32) float32: x += skip; Σ x²
TEXT ·trainAddSquares(SB), NOSPLIT, $0-28
	MOVQ n+0(FP), CX
	MOVQ skip+8(FP), DX
	MOVQ x+16(FP), SI
	VXORPS Y0, Y0, Y0

loop:
	VMOVUPS (SI), Y2
	VADDPS (DX), Y2, Y2
	VMOVUPS Y2, (SI)
	VFMADD231PS Y2, Y2, Y0
	ADDQ $32, SI
	ADDQ $32, DX
	SUBQ $8, CX
	JNZ  loop
	HSUM
	VMOVSS X0, ret+24(FP)
	VZEROUPPER
	RET

// func trainNormBackward(n int, r, c float32, dy, x, gain, skip, dx, dgain *float32)
// dgain += dy·x·r; dx = skip + r·dy·gain - c·x.
TEXT ·trainNormBackward(SB), NOSPLIT, $0-64
	MOVQ n+0(FP), CX
	VBROADCASTSS r+8(FP), Y0
	VBROADCASTSS c+12(FP), Y1
	MOVQ dy+16(FP), R8
	MOVQ x+24(FP), SI
	MOVQ gain+32(FP), DX
	MOVQ skip+40(FP), AX
	MOVQ dx+48(FP), DI
	MOVQ dgain+56(FP), BX

loop:
	VMULPS (R8), Y0, Y2 // r·dy
	VMOVUPS (SI), Y3
	VMOVUPS (BX), Y4
	VFMADD231PS Y2, Y3, Y4
	VMOVUPS Y4, (BX)
	VMOVUPS (AX), Y5
	VFMADD231PS (DX), Y2, Y5
	VFNMADD231PS Y1, Y3, Y5
	VMOVUPS Y5, (DI)
	ADDQ $32, R8
	ADDQ $32, SI
	ADDQ $32, DX
	ADDQ $32, AX
	ADDQ $32, DI
	ADDQ $32, BX
	SUBQ $8, CX
	JNZ  loop
	VZEROUPPER
	RET

// func trainSoftmax(n int, x *float32) (max, sum float32)
// x = e^(x - max) / sum; terms 87 below max become 0.
TEXT ·trainSoftmax(SB), NOSPLIT, $0-24
	MOVQ n+0(FP), CX
	MOVQ x+8(FP), SI
	LEAQ (SI)(CX*4), DX // end
	MOVQ SI, DI
	VMOVUPS (SI), Y0

largest:
	VMAXPS (DI), Y0, Y0
	ADDQ $32, DI
	CMPQ DI, DX
	JNE  largest
	VEXTRACTF128 $1, Y0, X1
	VMAXPS X1, X0, X0
	VMOVHLPS X0, X0, X1
	VMAXPS X1, X0, X0
	VMOVSHDUP X0, X1
	VMAXSS X1, X0, X0
	VMOVSS X0, max+16(FP)
	VBROADCASTSS X0, Y5
	EXPCONSTS
	VXORPS Y6, Y6, Y6
	MOVQ SI, DI

power:
	VMOVUPS (DI), Y0
	VSUBPS Y5, Y0, Y0
	VCMPPS $5, Y9, Y0, Y4 // not below
	VMAXPS Y9, Y0, Y0
	EXP(Y0, Y1, Y2)
	VANDPS Y4, Y0, Y0
	VADDPS Y0, Y6, Y6
	VMOVUPS Y0, (DI)
	ADDQ $32, DI
	CMPQ DI, DX
	JNE  power
	VMOVAPS Y6, Y0
	HSUM
	VMOVSS X0, sum+20(FP)
	VDIVSS X0, X14, X0
	VBROADCASTSS X0, Y0

share:
	VMULPS (SI), Y0, Y1
	VMOVUPS Y1, (SI)
	ADDQ $32, SI
	CMPQ SI, DX
	JNE  share
	VZEROUPPER
	RET

// func trainSoftmaxBackward(n int, lse, delta, scale float32, s, dp *float32)
// s = p = e^(s - lse); dp = scale·p·(dp - delta).
TEXT ·trainSoftmaxBackward(SB), NOSPLIT, $0-40
	MOVQ n+0(FP), CX
	VBROADCASTSS lse+8(FP), Y5
	VBROADCASTSS delta+12(FP), Y6
	VBROADCASTSS scale+16(FP), Y7
	MOVQ s+24(FP), SI
	MOVQ dp+32(FP), DI
	EXPCONSTS

loop:
	VMOVUPS (SI), Y0
	VSUBPS Y5, Y0, Y0
	VCMPPS $5, Y9, Y0, Y4 // not below
	VMINPS Y8, Y0, Y0
	VMAXPS Y9, Y0, Y0
	EXP(Y0, Y1, Y2)
	VANDPS Y4, Y0, Y0
	VMOVUPS Y0, (SI)
	VMOVUPS (DI), Y3
	VSUBPS Y6, Y3, Y3
	VMULPS Y7, Y0, Y0
	VMULPS Y0, Y3, Y3
	VMOVUPS Y3, (DI)
	ADDQ $32, SI
	ADDQ $32, DI
	SUBQ $8, CX
	JNZ  loop
	VZEROUPPER
	RET

// func trainSwiGLU(n int, gate, up, h *float32): h = gate·σ(gate)·up
TEXT ·trainSwiGLU(SB), NOSPLIT, $0-32
	MOVQ n+0(FP), CX
	MOVQ gate+8(FP), SI
	MOVQ up+16(FP), DX
	MOVQ h+24(FP), DI
	EXPCONSTS
	VBROADCASTSS signBit<>(SB), Y7

loop:
	PREFETCHT0 512(DI)
	VMOVUPS (SI), Y3
	VXORPS Y7, Y3, Y0
	CLAMP(Y0)
	EXP(Y0, Y1, Y2)
	VADDPS Y14, Y0, Y0
	VMULPS (DX), Y3, Y3
	VDIVPS Y0, Y3, Y0
	VMOVUPS Y0, (DI)
	ADDQ $32, SI
	ADDQ $32, DX
	ADDQ $32, DI
	SUBQ $8, CX
	JNZ  loop
	VZEROUPPER
	RET

// func trainAdamW(n int, k *AdamW, p, grad, m, v *float32)
// k holds nine floats: gradient scale, β1, 1-β1, β2, 1-β2, lr/(1-β1^t),
// 1/√(1-β2^t), ε, 1 - lr·weight decay.
TEXT ·trainAdamW(SB), NOSPLIT, $0-48
	MOVQ n+0(FP), CX
	MOVQ k+8(FP), AX
	MOVQ p+16(FP), DI
	MOVQ grad+24(FP), SI
	MOVQ m+32(FP), DX
	MOVQ v+40(FP), BX
	VBROADCASTSS (AX), Y7
	VBROADCASTSS 4(AX), Y8
	VBROADCASTSS 8(AX), Y9
	VBROADCASTSS 12(AX), Y10
	VBROADCASTSS 16(AX), Y11
	VBROADCASTSS 20(AX), Y12
	VBROADCASTSS 24(AX), Y13
	VBROADCASTSS 28(AX), Y14
	VBROADCASTSS 32(AX), Y15

loop:
	VMULPS (SI), Y7, Y0  // g
	VMULPS (DX), Y8, Y1
	VFMADD231PS Y0, Y9, Y1 // m
	VMOVUPS Y1, (DX)
	VMULPS Y0, Y0, Y0
	VMULPS (BX), Y10, Y2
	VFMADD231PS Y0, Y11, Y2 // v
	VMOVUPS Y2, (BX)
	VSQRTPS Y2, Y2
	VFMADD213PS Y14, Y13, Y2
	VMULPS Y12, Y1, Y1
	VDIVPS Y2, Y1, Y1
	VMOVUPS (DI), Y3
	VFMSUB213PS Y1, Y15, Y3
	VMOVUPS Y3, (DI)
	ADDQ $32, SI
	ADDQ $32, DI
	ADDQ $32, DX
	ADDQ $32, BX
	SUBQ $8, CX
	JNZ  loop
	VZEROUPPER
	RET
