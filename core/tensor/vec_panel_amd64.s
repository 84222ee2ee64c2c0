//go:build amd64 && !purego

#include "textflag.h"

// The micro-kernels of MulPanel. A row of c is 32 numbers: two zmm registers
// or four ymm. Every accumulator sums over k in ascending order.
//
// Registers: DI c, R8 its stride; SI a, R9 its stride, R10 three strides,
// R11 the fifth row of a; BX b; CX k.

#define ARGS \
	MOVQ    c+0(FP), DI    \
	MOVQ    ldc+8(FP), R8  \
	SHLQ    $2, R8         \
	MOVQ    a+16(FP), SI   \
	MOVQ    lda+24(FP), R9 \
	SHLQ    $2, R9         \
	LEAQ    (R9)(R9*2), R10 \
	LEAQ    (SI)(R9*4), R11 \
	MOVQ    b+32(FP), BX   \
	MOVQ    k+40(FP), CX   \
	MOVBLZX acc+48(FP), AX

#define ZERO2(lo, hi) \
	VPXORD lo, lo, lo \
	VPXORD hi, hi, hi

#define LOAD2(lo, hi) \
	VMOVUPS (DX), lo   \
	VMOVUPS 64(DX), hi \
	ADDQ    R8, DX

#define STORE2(lo, hi) \
	VMOVUPS lo, (DI)   \
	VMOVUPS hi, 64(DI) \
	ADDQ    R8, DI

#define FMA2(mem, lo, hi) \
	VFMADD231PS.BCST mem, Z16, lo \
	VFMADD231PS.BCST mem, Z17, hi

// LOADF32 and LOADF16 take a row of b into Z16 and Z17. off is the byte offset
// of the step in a row of a; b advances 32, or 16, times as fast.
#define LOADF32(off) \
	VMOVUPS (32*off)(BX), Z16    \
	VMOVUPS (32*off+64)(BX), Z17

#define LOADF16(off) \
	VCVTPH2PS (16*off)(BX), Z16    \
	VCVTPH2PS (16*off+32)(BX), Z17

#define STEP8(off, LOAD) \
	LOAD(off)                        \
	FMA2(off(SI), Z0, Z1)            \
	FMA2(off(SI)(R9*1), Z2, Z3)      \
	FMA2(off(SI)(R9*2), Z4, Z5)      \
	FMA2(off(SI)(R10*1), Z6, Z7)     \
	FMA2(off(R11), Z8, Z9)           \
	FMA2(off(R11)(R9*1), Z10, Z11)   \
	FMA2(off(R11)(R9*2), Z12, Z13)   \
	FMA2(off(R11)(R10*1), Z14, Z15)

#define STEP4(off, LOAD) \
	LOAD(off)                        \
	FMA2(off(SI), Z0, Z1)            \
	FMA2(off(SI)(R9*1), Z2, Z3)      \
	FMA2(off(SI)(R9*2), Z4, Z5)      \
	FMA2(off(SI)(R10*1), Z6, Z7)

#define STEP2(off, LOAD) \
	LOAD(off)                        \
	FMA2(off(SI), Z0, Z1)            \
	FMA2(off(SI)(R9*1), Z2, Z3)

#define STEP1(off, LOAD) \
	LOAD(off)                        \
	FMA2(off(SI), Z0, Z1)

// LOOP runs STEP over k, four at a time and then one by one; size is that of a
// row of b.
#define LOOP(STEP, LOAD, size) \
	SUBQ $4, CX     \
	JLT  rest       \
four:               \
	STEP(0, LOAD)   \
	STEP(4, LOAD)   \
	STEP(8, LOAD)   \
	STEP(12, LOAD)  \
	ADDQ $16, SI    \
	ADDQ $16, R11   \
	ADDQ $(4*size), BX \
	SUBQ $4, CX     \
	JGE  four       \
rest:               \
	ADDQ $4, CX     \
	JZ   store      \
single:             \
	STEP(0, LOAD)   \
	ADDQ $4, SI     \
	ADDQ $4, R11    \
	ADDQ $size, BX  \
	DECQ CX         \
	JNZ  single     \
store:

// Whole kernels: BODYn begins with c or zero, multiplies, and stores.
#define BODY8(LOAD, size) \
	ARGS                \
	ZERO2(Z0, Z1)       \
	ZERO2(Z2, Z3)       \
	ZERO2(Z4, Z5)       \
	ZERO2(Z6, Z7)       \
	ZERO2(Z8, Z9)       \
	ZERO2(Z10, Z11)     \
	ZERO2(Z12, Z13)     \
	ZERO2(Z14, Z15)     \
	TESTL AX, AX        \
	JZ    run           \
	MOVQ  DI, DX        \
	LOAD2(Z0, Z1)       \
	LOAD2(Z2, Z3)       \
	LOAD2(Z4, Z5)       \
	LOAD2(Z6, Z7)       \
	LOAD2(Z8, Z9)       \
	LOAD2(Z10, Z11)     \
	LOAD2(Z12, Z13)     \
	LOAD2(Z14, Z15)     \
run:                    \
	LOOP(STEP8, LOAD, size) \
	STORE2(Z0, Z1)      \
	STORE2(Z2, Z3)      \
	STORE2(Z4, Z5)      \
	STORE2(Z6, Z7)      \
	STORE2(Z8, Z9)      \
	STORE2(Z10, Z11)    \
	STORE2(Z12, Z13)    \
	STORE2(Z14, Z15)    \
	VZEROUPPER          \
	RET

#define BODY4(LOAD, size) \
	ARGS                \
	ZERO2(Z0, Z1)       \
	ZERO2(Z2, Z3)       \
	ZERO2(Z4, Z5)       \
	ZERO2(Z6, Z7)       \
	TESTL AX, AX        \
	JZ    run           \
	MOVQ  DI, DX        \
	LOAD2(Z0, Z1)       \
	LOAD2(Z2, Z3)       \
	LOAD2(Z4, Z5)       \
	LOAD2(Z6, Z7)       \
run:                    \
	LOOP(STEP4, LOAD, size) \
	STORE2(Z0, Z1)      \
	STORE2(Z2, Z3)      \
	STORE2(Z4, Z5)      \
	STORE2(Z6, Z7)      \
	VZEROUPPER          \
	RET

#define BODY2(LOAD, size) \
	ARGS                \
	ZERO2(Z0, Z1)       \
	ZERO2(Z2, Z3)       \
	TESTL AX, AX        \
	JZ    run           \
	MOVQ  DI, DX        \
	LOAD2(Z0, Z1)       \
	LOAD2(Z2, Z3)       \
run:                    \
	LOOP(STEP2, LOAD, size) \
	STORE2(Z0, Z1)      \
	STORE2(Z2, Z3)      \
	VZEROUPPER          \
	RET

#define BODY1(LOAD, size) \
	ARGS                \
	ZERO2(Z0, Z1)       \
	TESTL AX, AX        \
	JZ    run           \
	MOVQ  DI, DX        \
	LOAD2(Z0, Z1)       \
run:                    \
	LOOP(STEP1, LOAD, size) \
	STORE2(Z0, Z1)      \
	VZEROUPPER          \
	RET

// The AVX2 kernels take the 32 columns in two halves of 16.

#define YZERO2(lo, hi) \
	VXORPS lo, lo, lo \
	VXORPS hi, hi, hi

#define YLOAD2(lo, hi) \
	VMOVUPS (DX), lo   \
	VMOVUPS 32(DX), hi \
	ADDQ    R8, DX

#define YSTORE2(lo, hi) \
	VMOVUPS lo, (DX)   \
	VMOVUPS hi, 32(DX) \
	ADDQ    R8, DX

#define YFMA2(mem, lo, hi) \
	VBROADCASTSS mem, Y10  \
	VFMADD231PS Y10, Y8, lo \
	VFMADD231PS Y10, Y9, hi

#define YLOADF32 \
	VMOVUPS (R13), Y8   \
	VMOVUPS 32(R13), Y9

#define YLOADF16 \
	VCVTPH2PS (R13), Y8   \
	VCVTPH2PS 16(R13), Y9

#define YBODY4(LOAD, size) \
	ARGS                        \
	MOVQ  $2, R12               \
half:                           \
	YZERO2(Y0, Y1)              \
	YZERO2(Y2, Y3)              \
	YZERO2(Y4, Y5)              \
	YZERO2(Y6, Y7)              \
	TESTL AX, AX                \
	JZ    run                   \
	MOVQ  DI, DX                \
	YLOAD2(Y0, Y1)              \
	YLOAD2(Y2, Y3)              \
	YLOAD2(Y4, Y5)              \
	YLOAD2(Y6, Y7)              \
run:                            \
	MOVQ SI, R11                \
	MOVQ BX, R13                \
	MOVQ CX, R14                \
loop:                           \
	LOAD                        \
	YFMA2((R11), Y0, Y1)        \
	YFMA2((R11)(R9*1), Y2, Y3)  \
	YFMA2((R11)(R9*2), Y4, Y5)  \
	YFMA2((R11)(R10*1), Y6, Y7) \
	ADDQ    $4, R11             \
	ADDQ    $size, R13          \
	DECQ    R14                 \
	JNZ     loop                \
	MOVQ    DI, DX              \
	YSTORE2(Y0, Y1)             \
	YSTORE2(Y2, Y3)             \
	YSTORE2(Y4, Y5)             \
	YSTORE2(Y6, Y7)             \
	ADDQ    $64, DI             \
	ADDQ    $(size/2), BX       \
	DECQ    R12                 \
	JNZ     half                \
	VZEROUPPER                  \
	RET

#define YBODY1(LOAD, size) \
	ARGS                        \
	MOVQ  $2, R12               \
half:                           \
	YZERO2(Y0, Y1)              \
	TESTL AX, AX                \
	JZ    run                   \
	MOVQ  DI, DX                \
	YLOAD2(Y0, Y1)              \
run:                            \
	MOVQ SI, R11                \
	MOVQ BX, R13                \
	MOVQ CX, R14                \
loop:                           \
	LOAD                        \
	YFMA2((R11), Y0, Y1)        \
	ADDQ    $4, R11             \
	ADDQ    $size, R13          \
	DECQ    R14                 \
	JNZ     loop                \
	MOVQ    DI, DX              \
	YSTORE2(Y0, Y1)             \
	ADDQ    $64, DI             \
	ADDQ    $(size/2), BX       \
	DECQ    R12                 \
	JNZ     half                \
	VZEROUPPER                  \
	RET

// func panel8AVX512(c *float32, ldc int, a *float32, lda int, b *float32, k int, acc bool)
TEXT ·panel8AVX512(SB), NOSPLIT, $0-49
	BODY8(LOADF32, 128)

// func panel8F16AVX512(c *float32, ldc int, a *float32, lda int, b *byte, k int, acc bool)
TEXT ·panel8F16AVX512(SB), NOSPLIT, $0-49
	BODY8(LOADF16, 64)

// func panel4AVX512(c *float32, ldc int, a *float32, lda int, b *float32, k int, acc bool)
TEXT ·panel4AVX512(SB), NOSPLIT, $0-49
	BODY4(LOADF32, 128)

// func panel4F16AVX512(c *float32, ldc int, a *float32, lda int, b *byte, k int, acc bool)
TEXT ·panel4F16AVX512(SB), NOSPLIT, $0-49
	BODY4(LOADF16, 64)

// func panel2AVX512(c *float32, ldc int, a *float32, lda int, b *float32, k int, acc bool)
TEXT ·panel2AVX512(SB), NOSPLIT, $0-49
	BODY2(LOADF32, 128)

// func panel2F16AVX512(c *float32, ldc int, a *float32, lda int, b *byte, k int, acc bool)
TEXT ·panel2F16AVX512(SB), NOSPLIT, $0-49
	BODY2(LOADF16, 64)

// func panel1AVX512(c *float32, ldc int, a *float32, lda int, b *float32, k int, acc bool)
TEXT ·panel1AVX512(SB), NOSPLIT, $0-49
	BODY1(LOADF32, 128)

// func panel1F16AVX512(c *float32, ldc int, a *float32, lda int, b *byte, k int, acc bool)
TEXT ·panel1F16AVX512(SB), NOSPLIT, $0-49
	BODY1(LOADF16, 64)

// func panel4AVX2(c *float32, ldc int, a *float32, lda int, b *float32, k int, acc bool)
TEXT ·panel4AVX2(SB), NOSPLIT, $0-49
	YBODY4(YLOADF32, 128)

// func panel4F16AVX2(c *float32, ldc int, a *float32, lda int, b *byte, k int, acc bool)
TEXT ·panel4F16AVX2(SB), NOSPLIT, $0-49
	YBODY4(YLOADF16, 64)

// func panel1AVX2(c *float32, ldc int, a *float32, lda int, b *float32, k int, acc bool)
TEXT ·panel1AVX2(SB), NOSPLIT, $0-49
	YBODY1(YLOADF32, 128)

// func panel1F16AVX2(c *float32, ldc int, a *float32, lda int, b *byte, k int, acc bool)
TEXT ·panel1F16AVX2(SB), NOSPLIT, $0-49
	YBODY1(YLOADF16, 64)
