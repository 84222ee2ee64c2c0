//go:build amd64 && !purego

#include "textflag.h"
#include "gemm_amd64.h"

// The micro-kernels hold one tile of C in registers and walk k once:
//
//	C[i,j] = alpha · Σ_k A[i,k]·B[k,j] + beta · C[i,j]
//
// A is read in place: element (i,k) is at a + i·rs + k·cs bytes, so the same
// kernel serves A and Aᵀ. B is one packed panel, NR floats a row. Every element
// of C is the same chain of fused multiply-adds in the order of k whatever the
// height of its tile, which is what makes results independent of how rows are
// split over threads.
//
// func kernel(k int, a *float32, rs, cs uintptr, b, c *float32, ldc uintptr, alpha, beta float32)

// One row of an AVX-512 tile: broadcast A, two accumulators of 16 columns.
#define FMA512(addr, t, c0, c1) \
	VBROADCASTSS addr, t; \
	VFMADD231PS Z0, t, c0; \
	VFMADD231PS Z1, t, c1

// func gemm12x32(k int, a *float32, rs, cs uintptr, b, c *float32, ldc uintptr, alpha, beta float32)
TEXT ·gemm12x32(SB), NOSPLIT, $0-64
	ARGS
	ROWS12(CLEAR512)

loop:
	VMOVUPS (BX), Z0
	VMOVUPS 64(BX), Z1
	FMA512((AX), Z2, Z8, Z9)
	FMA512((AX)(R8*1), Z3, Z10, Z11)
	FMA512((AX)(R8*2), Z4, Z12, Z13)
	FMA512((R9), Z5, Z14, Z15)
	FMA512((R9)(R8*1), Z6, Z16, Z17)
	FMA512((R9)(R8*2), Z7, Z18, Z19)
	FMA512((R10), Z2, Z20, Z21)
	FMA512((R10)(R8*1), Z3, Z22, Z23)
	FMA512((R10)(R8*2), Z4, Z24, Z25)
	FMA512((R11), Z5, Z26, Z27)
	FMA512((R11)(R8*1), Z6, Z28, Z29)
	FMA512((R11)(R8*2), Z7, Z30, Z31)
	ADDQ $128, BX
	ADDQ R12, AX
	ADDQ R12, R9
	ADDQ R12, R10
	ADDQ R12, R11
	DECQ CX
	JNZ  loop

	ALPHA512
	JEQ  plain
	ROWS12(SCALE512)

plain:
	BETA512
	JNE blend
	ROWS12(STORE512)
	VZEROUPPER
	RET

blend:
	ROWS12(BLEND512)
	VZEROUPPER
	RET

// func gemm8x32(k int, a *float32, rs, cs uintptr, b, c *float32, ldc uintptr, alpha, beta float32)
TEXT ·gemm8x32(SB), NOSPLIT, $0-64
	ARGS
	ROWS8(CLEAR512)

loop:
	VMOVUPS (BX), Z0
	VMOVUPS 64(BX), Z1
	FMA512((AX), Z2, Z8, Z9)
	FMA512((AX)(R8*1), Z3, Z10, Z11)
	FMA512((AX)(R8*2), Z4, Z12, Z13)
	FMA512((R9), Z5, Z14, Z15)
	FMA512((R9)(R8*1), Z6, Z16, Z17)
	FMA512((R9)(R8*2), Z7, Z18, Z19)
	FMA512((R10), Z2, Z20, Z21)
	FMA512((R10)(R8*1), Z3, Z22, Z23)
	ADDQ $128, BX
	ADDQ R12, AX
	ADDQ R12, R9
	ADDQ R12, R10
	DECQ CX
	JNZ  loop

	ALPHA512
	JEQ  plain
	ROWS8(SCALE512)

plain:
	BETA512
	JNE blend
	ROWS8(STORE512)
	VZEROUPPER
	RET

blend:
	ROWS8(BLEND512)
	VZEROUPPER
	RET

// func gemm4x32(k int, a *float32, rs, cs uintptr, b, c *float32, ldc uintptr, alpha, beta float32)
TEXT ·gemm4x32(SB), NOSPLIT, $0-64
	ARGS
	ROWS4(CLEAR512)

loop:
	VMOVUPS (BX), Z0
	VMOVUPS 64(BX), Z1
	FMA512((AX), Z2, Z8, Z9)
	FMA512((AX)(R8*1), Z3, Z10, Z11)
	FMA512((AX)(R8*2), Z4, Z12, Z13)
	FMA512((R9), Z5, Z14, Z15)
	ADDQ $128, BX
	ADDQ R12, AX
	ADDQ R12, R9
	DECQ CX
	JNZ  loop

	ALPHA512
	JEQ  plain
	ROWS4(SCALE512)

plain:
	BETA512
	JNE blend
	ROWS4(STORE512)
	VZEROUPPER
	RET

blend:
	ROWS4(BLEND512)
	VZEROUPPER
	RET

// func gemm1x32(k int, a *float32, rs, cs uintptr, b, c *float32, ldc uintptr, alpha, beta float32)
TEXT ·gemm1x32(SB), NOSPLIT, $0-64
	ARGS
	CLEAR512(Z8, Z9)

loop:
	VBROADCASTSS (AX), Z2
	VFMADD231PS (BX), Z2, Z8
	VFMADD231PS 64(BX), Z2, Z9
	ADDQ $128, BX
	ADDQ R12, AX
	DECQ CX
	JNZ  loop

	ALPHA512
	JEQ  plain
	SCALE512(Z8, Z9)

plain:
	BETA512
	JNE blend
	STORE512(Z8, Z9)
	VZEROUPPER
	RET

blend:
	BLEND512(Z8, Z9)
	VZEROUPPER
	RET

// The AVX2 tiles: the same walk with 8 columns a register.
#define FMA256(addr, t, c0, c1) \
	VBROADCASTSS addr, t; \
	VFMADD231PS Y0, t, c0; \
	VFMADD231PS Y1, t, c1

#define CLEAR256(c0, c1) \
	VXORPS c0, c0, c0; \
	VXORPS c1, c1, c1

#define STORE256(c0, c1) \
	VMOVUPS c0, (DI); \
	VMOVUPS c1, 32(DI); \
	ADDQ DX, DI

#define SCALE256(c0, c1) \
	VMULPS Y0, c0, c0; \
	VMULPS Y0, c1, c1

#define BLEND256(c0, c1) \
	VFMADD231PS (DI), Y1, c0; \
	VFMADD231PS 32(DI), Y1, c1; \
	VMOVUPS c0, (DI); \
	VMOVUPS c1, 32(DI); \
	ADDQ DX, DI

#define ALPHA256 \
	VBROADCASTSS alpha+56(FP), Y0; \
	VUCOMISS gemmOne<>(SB), X0

#define BETA256 \
	VBROADCASTSS beta+60(FP), Y1; \
	VXORPS X2, X2, X2; \
	VUCOMISS X2, X1

// NEXT256 sets R13 to the bytes of a panel: the one after it, which is the next
// of its matrix, is fetched while this one is multiplied. With 512 bits a panel
// lasts longer, and fetching ahead of the processor costs more than it saves.
#define NEXT256 \
	MOVQ CX, R13; \
	SHLQ $6, R13

// func gemm6x16(k int, a *float32, rs, cs uintptr, b, c *float32, ldc uintptr, alpha, beta float32)
TEXT ·gemm6x16(SB), NOSPLIT, $0-64
	ARGS
	CLEAR256(Y4, Y5)
	CLEAR256(Y6, Y7)
	CLEAR256(Y8, Y9)
	CLEAR256(Y10, Y11)
	CLEAR256(Y12, Y13)
	CLEAR256(Y14, Y15)
	NEXT256

loop:
	PREFETCHT1 (BX)(R13*1)
	VMOVUPS (BX), Y0
	VMOVUPS 32(BX), Y1
	FMA256((AX), Y2, Y4, Y5)
	FMA256((AX)(R8*1), Y3, Y6, Y7)
	FMA256((AX)(R8*2), Y2, Y8, Y9)
	FMA256((R9), Y3, Y10, Y11)
	FMA256((R9)(R8*1), Y2, Y12, Y13)
	FMA256((R9)(R8*2), Y3, Y14, Y15)
	ADDQ $64, BX
	ADDQ R12, AX
	ADDQ R12, R9
	DECQ CX
	JNZ  loop

	ALPHA256
	JEQ  plain
	SCALE256(Y4, Y5)
	SCALE256(Y6, Y7)
	SCALE256(Y8, Y9)
	SCALE256(Y10, Y11)
	SCALE256(Y12, Y13)
	SCALE256(Y14, Y15)

plain:
	BETA256
	JNE blend
	STORE256(Y4, Y5)
	STORE256(Y6, Y7)
	STORE256(Y8, Y9)
	STORE256(Y10, Y11)
	STORE256(Y12, Y13)
	STORE256(Y14, Y15)
	VZEROUPPER
	RET

blend:
	BLEND256(Y4, Y5)
	BLEND256(Y6, Y7)
	BLEND256(Y8, Y9)
	BLEND256(Y10, Y11)
	BLEND256(Y12, Y13)
	BLEND256(Y14, Y15)
	VZEROUPPER
	RET

// func gemm4x16(k int, a *float32, rs, cs uintptr, b, c *float32, ldc uintptr, alpha, beta float32)
TEXT ·gemm4x16(SB), NOSPLIT, $0-64
	ARGS
	CLEAR256(Y4, Y5)
	CLEAR256(Y6, Y7)
	CLEAR256(Y8, Y9)
	CLEAR256(Y10, Y11)
	NEXT256

loop:
	PREFETCHT1 (BX)(R13*1)
	VMOVUPS (BX), Y0
	VMOVUPS 32(BX), Y1
	FMA256((AX), Y2, Y4, Y5)
	FMA256((AX)(R8*1), Y3, Y6, Y7)
	FMA256((AX)(R8*2), Y2, Y8, Y9)
	FMA256((R9), Y3, Y10, Y11)
	ADDQ $64, BX
	ADDQ R12, AX
	ADDQ R12, R9
	DECQ CX
	JNZ  loop

	ALPHA256
	JEQ  plain
	SCALE256(Y4, Y5)
	SCALE256(Y6, Y7)
	SCALE256(Y8, Y9)
	SCALE256(Y10, Y11)

plain:
	BETA256
	JNE blend
	STORE256(Y4, Y5)
	STORE256(Y6, Y7)
	STORE256(Y8, Y9)
	STORE256(Y10, Y11)
	VZEROUPPER
	RET

blend:
	BLEND256(Y4, Y5)
	BLEND256(Y6, Y7)
	BLEND256(Y8, Y9)
	BLEND256(Y10, Y11)
	VZEROUPPER
	RET

// func gemm2x16(k int, a *float32, rs, cs uintptr, b, c *float32, ldc uintptr, alpha, beta float32)
TEXT ·gemm2x16(SB), NOSPLIT, $0-64
	ARGS
	CLEAR256(Y4, Y5)
	CLEAR256(Y6, Y7)

loop:
	VMOVUPS (BX), Y0
	VMOVUPS 32(BX), Y1
	FMA256((AX), Y2, Y4, Y5)
	FMA256((AX)(R8*1), Y3, Y6, Y7)
	ADDQ $64, BX
	ADDQ R12, AX
	DECQ CX
	JNZ  loop

	ALPHA256
	JEQ  plain
	SCALE256(Y4, Y5)
	SCALE256(Y6, Y7)

plain:
	BETA256
	JNE blend
	STORE256(Y4, Y5)
	STORE256(Y6, Y7)
	VZEROUPPER
	RET

blend:
	BLEND256(Y4, Y5)
	BLEND256(Y6, Y7)
	VZEROUPPER
	RET

// func gemm1x16(k int, a *float32, rs, cs uintptr, b, c *float32, ldc uintptr, alpha, beta float32)
TEXT ·gemm1x16(SB), NOSPLIT, $0-64
	ARGS
	CLEAR256(Y4, Y5)

loop:
	VBROADCASTSS (AX), Y2
	VFMADD231PS (BX), Y2, Y4
	VFMADD231PS 32(BX), Y2, Y5
	ADDQ $64, BX
	ADDQ R12, AX
	DECQ CX
	JNZ  loop

	ALPHA256
	JEQ  plain
	SCALE256(Y4, Y5)

plain:
	BETA256
	JNE blend
	STORE256(Y4, Y5)
	VZEROUPPER
	RET

blend:
	BLEND256(Y4, Y5)
	VZEROUPPER
	RET

// func fmaLoop512(n int): 24 independent chains of 512-bit FMAs, n times over;
// the peak that the benchmarks compare with.
TEXT ·fmaLoop512(SB), NOSPLIT, $0-8
	MOVQ n+0(FP), CX
	VPXORD Z0, Z0, Z0
	VPXORD Z1, Z1, Z1

loop:
	VFMADD231PS Z0, Z1, Z8
	VFMADD231PS Z0, Z1, Z9
	VFMADD231PS Z0, Z1, Z10
	VFMADD231PS Z0, Z1, Z11
	VFMADD231PS Z0, Z1, Z12
	VFMADD231PS Z0, Z1, Z13
	VFMADD231PS Z0, Z1, Z14
	VFMADD231PS Z0, Z1, Z15
	VFMADD231PS Z0, Z1, Z16
	VFMADD231PS Z0, Z1, Z17
	VFMADD231PS Z0, Z1, Z18
	VFMADD231PS Z0, Z1, Z19
	VFMADD231PS Z0, Z1, Z20
	VFMADD231PS Z0, Z1, Z21
	VFMADD231PS Z0, Z1, Z22
	VFMADD231PS Z0, Z1, Z23
	DECQ CX
	JNZ  loop
	VZEROUPPER
	RET

// func fmaLoop256(n int): 12 independent chains of 256-bit FMAs, n times over.
TEXT ·fmaLoop256(SB), NOSPLIT, $0-8
	MOVQ n+0(FP), CX
	VXORPS Y0, Y0, Y0
	VXORPS Y1, Y1, Y1

loop:
	VFMADD231PS Y0, Y1, Y4
	VFMADD231PS Y0, Y1, Y5
	VFMADD231PS Y0, Y1, Y6
	VFMADD231PS Y0, Y1, Y7
	VFMADD231PS Y0, Y1, Y8
	VFMADD231PS Y0, Y1, Y9
	VFMADD231PS Y0, Y1, Y10
	VFMADD231PS Y0, Y1, Y11
	VFMADD231PS Y0, Y1, Y12
	VFMADD231PS Y0, Y1, Y13
	VFMADD231PS Y0, Y1, Y14
	VFMADD231PS Y0, Y1, Y15
	DECQ CX
	JNZ  loop
	VZEROUPPER
	RET

// func packRows(k, w8 int, src *float32, lds uintptr, dst *float32, ldd uintptr)
// copies k rows of 8·w8 floats, lds bytes apart, to rows ldd bytes apart.
TEXT ·packRows(SB), NOSPLIT, $0-48
	MOVQ k+0(FP), CX
	MOVQ w8+8(FP), R9
	MOVQ src+16(FP), SI
	MOVQ lds+24(FP), R10
	MOVQ dst+32(FP), DI
	MOVQ ldd+40(FP), R11
	CMPQ R9, $4
	JEQ  wide
	CMPQ R9, $2
	JEQ  narrow

row:
	MOVQ R9, DX
	MOVQ SI, AX
	MOVQ DI, BX

vec:
	VMOVUPS (AX), Y0
	VMOVUPS Y0, (BX)
	ADDQ $32, AX
	ADDQ $32, BX
	DECQ DX
	JNZ  vec
	ADDQ R10, SI
	ADDQ R11, DI
	DECQ CX
	JNZ  row
	VZEROUPPER
	RET

wide:
	VMOVUPS (SI), Y0
	VMOVUPS 32(SI), Y1
	VMOVUPS 64(SI), Y2
	VMOVUPS 96(SI), Y3
	VMOVUPS Y0, (DI)
	VMOVUPS Y1, 32(DI)
	VMOVUPS Y2, 64(DI)
	VMOVUPS Y3, 96(DI)
	ADDQ R10, SI
	ADDQ R11, DI
	DECQ CX
	JNZ  wide
	VZEROUPPER
	RET

narrow:
	VMOVUPS (SI), Y0
	VMOVUPS 32(SI), Y1
	VMOVUPS Y0, (DI)
	VMOVUPS Y1, 32(DI)
	ADDQ R10, SI
	ADDQ R11, DI
	DECQ CX
	JNZ  narrow
	VZEROUPPER
	RET

// func packTransposed8(k8 int, src *float32, lds uintptr, dst *float32, ldd uintptr)
// writes the transpose of 8 rows of 8·k8 floats, lds bytes apart: float j of
// row i goes to dst + j·ldd + 4·i bytes.
TEXT ·packTransposed8(SB), NOSPLIT, $0-40
	MOVQ k8+0(FP), CX
	MOVQ src+8(FP), SI
	MOVQ lds+16(FP), R8
	MOVQ dst+24(FP), DI
	MOVQ ldd+32(FP), R9
	LEAQ (R8)(R8*2), R10
	LEAQ (R9)(R9*2), R11

block:
	LEAQ (SI)(R8*4), AX
	VMOVUPS (SI), Y0
	VMOVUPS (SI)(R8*1), Y1
	VMOVUPS (SI)(R8*2), Y2
	VMOVUPS (SI)(R10*1), Y3
	VMOVUPS (AX), Y4
	VMOVUPS (AX)(R8*1), Y5
	VMOVUPS (AX)(R8*2), Y6
	VMOVUPS (AX)(R10*1), Y7

	VUNPCKLPS Y1, Y0, Y8
	VUNPCKHPS Y1, Y0, Y9
	VUNPCKLPS Y3, Y2, Y10
	VUNPCKHPS Y3, Y2, Y11
	VUNPCKLPS Y5, Y4, Y12
	VUNPCKHPS Y5, Y4, Y13
	VUNPCKLPS Y7, Y6, Y14
	VUNPCKHPS Y7, Y6, Y15

	VSHUFPS $0x44, Y10, Y8, Y0
	VSHUFPS $0xEE, Y10, Y8, Y1
	VSHUFPS $0x44, Y11, Y9, Y2
	VSHUFPS $0xEE, Y11, Y9, Y3
	VSHUFPS $0x44, Y14, Y12, Y4
	VSHUFPS $0xEE, Y14, Y12, Y5
	VSHUFPS $0x44, Y15, Y13, Y6
	VSHUFPS $0xEE, Y15, Y13, Y7

	VPERM2F128 $0x20, Y4, Y0, Y8
	VPERM2F128 $0x20, Y5, Y1, Y9
	VPERM2F128 $0x20, Y6, Y2, Y10
	VPERM2F128 $0x20, Y7, Y3, Y11
	VPERM2F128 $0x31, Y4, Y0, Y12
	VPERM2F128 $0x31, Y5, Y1, Y13
	VPERM2F128 $0x31, Y6, Y2, Y14
	VPERM2F128 $0x31, Y7, Y3, Y15

	LEAQ (DI)(R9*4), BX
	VMOVUPS Y8, (DI)
	VMOVUPS Y9, (DI)(R9*1)
	VMOVUPS Y10, (DI)(R9*2)
	VMOVUPS Y11, (DI)(R11*1)
	VMOVUPS Y12, (BX)
	VMOVUPS Y13, (BX)(R9*1)
	VMOVUPS Y14, (BX)(R9*2)
	VMOVUPS Y15, (BX)(R11*1)

	ADDQ $32, SI
	LEAQ (DI)(R9*8), DI
	DECQ CX
	JNZ  block
	VZEROUPPER
	RET
