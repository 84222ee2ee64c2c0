//go:build amd64 && !purego

#include "textflag.h"

// Vector kernels of training, 256 bits wide. Every n is a multiple of 8 and at
// least 8; the Go side does the rest.

#define CONST(name, bits) \
	DATA name<>+0(SB)/4, $bits; \
	GLOBL name<>(SB), RODATA|NOPTR, $4

CONST(expHi, 0x42b00000)     // 88
CONST(expLo, 0xc2aeac4f)     // -87.33654
CONST(log2e, 0x3fb8aa3b)     // 1/ln 2
CONST(ln2Hi, 0x3f318000)     // 0.693359375
CONST(ln2Lo, 0xb95e8083)     // ln 2 - ln2Hi
CONST(expC5, 0x39506967)     // 1.9875691500e-4
CONST(half, 0x3f000000)      // 0.5
CONST(one, 0x3f800000)       // 1
CONST(bias127, 0x0000007f)   // exponent bias
CONST(signBit, 0x80000000)

// EXPCONSTS loads what EXP needs into Y8…Y15.
#define EXPCONSTS \
	VBROADCASTSS expHi<>(SB), Y8; \
	VBROADCASTSS expLo<>(SB), Y9; \
	VBROADCASTSS log2e<>(SB), Y10; \
	VBROADCASTSS ln2Hi<>(SB), Y11; \
	VBROADCASTSS ln2Lo<>(SB), Y12; \
	VBROADCASTSS half<>(SB), Y13; \
	VBROADCASTSS one<>(SB), Y14; \
	VPBROADCASTD bias127<>(SB), Y15

// EXP replaces x by e to the x: x = n·ln 2 + r, e^r by the polynomial of Cephes'
// expf, 2^n by the exponent field. a and b are scratch. Relative error < 2e-7.
#define EXP(x, a, b) \
	VMINPS Y8, x, x; \
	VMAXPS Y9, x, x; \
	VMULPS Y10, x, a; \
	VROUNDPS $0, a, a; \
	VFNMADD231PS Y11, a, x; \
	VFNMADD231PS Y12, a, x; \
	VCVTPS2DQ a, a; \
	VPADDD Y15, a, a; \
	VPSLLD $23, a, a; \
	VBROADCASTSS expC5<>(SB), b; \
	VFMADD213PS expC4x8<>(SB), x, b; \
	VFMADD213PS expC3x8<>(SB), x, b; \
	VFMADD213PS expC2x8<>(SB), x, b; \
	VFMADD213PS expC1x8<>(SB), x, b; \
	VFMADD213PS Y13, x, b; \
	VFMADD213PS Y14, x, b; \
	VFMADD213PS Y14, x, b; \
	VMULPS a, b, x

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

CONST8(expC4x8, 0x3ab743ce)
CONST8(expC3x8, 0x3c088908)
CONST8(expC2x8, 0x3d2aa9c1)
CONST8(expC1x8, 0x3e2aaaaa)

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
	VMOVUPS (SI), Y3
	VXORPS Y7, Y3, Y0
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

// func trainNormBackward(n int, r, c float32, dy, x, gain, dx, dgain *float32)
// dgain += dy·x·r; dx += r·dy·gain - c·x.
TEXT ·trainNormBackward(SB), NOSPLIT, $0-56
	MOVQ n+0(FP), CX
	VBROADCASTSS r+8(FP), Y0
	VBROADCASTSS c+12(FP), Y1
	MOVQ dy+16(FP), R8
	MOVQ x+24(FP), SI
	MOVQ gain+32(FP), DX
	MOVQ dx+40(FP), DI
	MOVQ dgain+48(FP), BX

loop:
	VMULPS (R8), Y0, Y2 // r·dy
	VMOVUPS (SI), Y3
	VMOVUPS (BX), Y4
	VFMADD231PS Y2, Y3, Y4
	VMOVUPS Y4, (BX)
	VMOVUPS (DI), Y5
	VFMADD231PS (DX), Y2, Y5
	VFNMADD231PS Y1, Y3, Y5
	VMOVUPS Y5, (DI)
	ADDQ $32, R8
	ADDQ $32, SI
	ADDQ $32, DX
	ADDQ $32, DI
	ADDQ $32, BX
	SUBQ $8, CX
	JNZ  loop
	VZEROUPPER
	RET

// func trainSoftmaxBackward(n int, delta, scale float32, p, dp *float32)
// dp = scale·p·(dp - delta)
TEXT ·trainSoftmaxBackward(SB), NOSPLIT, $0-32
	MOVQ n+0(FP), CX
	VBROADCASTSS delta+8(FP), Y0
	VBROADCASTSS scale+12(FP), Y1
	MOVQ p+16(FP), SI
	MOVQ dp+24(FP), DI

loop:
	VMOVUPS (DI), Y2
	VSUBPS Y0, Y2, Y2
	VMULPS (SI), Y2, Y2
	VMULPS Y1, Y2, Y2
	VMOVUPS Y2, (DI)
	ADDQ $32, SI
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
