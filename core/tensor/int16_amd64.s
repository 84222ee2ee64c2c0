//go:build amd64 && !purego

#include "textflag.h"

// SUMS: the sums of the lanes of a, b, c and d as four numbers in the lower
// half of a, whose name is x; t is scratch.
#define SUMS(a, b, c, d, x, t) \
	VPHADDD b, a, a \
	VPHADDD d, c, c \
	VPHADDD c, a, a \
	VEXTRACTI128 $1, a, t \
	VPADDD t, x, x

// func int16x4(c *int32, a, b *int16, ldb uintptr, k int)
TEXT ·int16x4(SB), NOSPLIT, $0-40
	MOVQ  c+0(FP), DI
	MOVQ  a+8(FP), SI
	MOVQ  b+16(FP), DX
	MOVQ  ldb+24(FP), R8
	MOVQ  k+32(FP), CX
	LEAQ  (DX)(R8*2), R9
	VPXOR Y0, Y0, Y0
	VPXOR Y1, Y1, Y1
	VPXOR Y2, Y2, Y2
	VPXOR Y3, Y3, Y3

loop:
	VMOVDQU  (SI), Y8
	VPMADDWD (DX), Y8, Y10
	VPADDD   Y10, Y0, Y0
	VPMADDWD (DX)(R8*1), Y8, Y11
	VPADDD   Y11, Y1, Y1
	VPMADDWD (R9), Y8, Y12
	VPADDD   Y12, Y2, Y2
	VPMADDWD (R9)(R8*1), Y8, Y13
	VPADDD   Y13, Y3, Y3
	ADDQ     $32, SI
	ADDQ     $32, DX
	ADDQ     $32, R9
	SUBQ     $16, CX
	JNZ      loop
	SUMS(Y0, Y1, Y2, Y3, X0, X8)
	VMOVDQU  X0, (DI)
	VZEROUPPER
	RET

// func int16x8(c *int32, ldc uintptr, a *int16, lda uintptr, b *int16, ldb uintptr, k int)
TEXT ·int16x8(SB), NOSPLIT, $0-56
	MOVQ  c+0(FP), DI
	MOVQ  ldc+8(FP), R11
	MOVQ  a+16(FP), SI
	MOVQ  lda+24(FP), R10
	MOVQ  b+32(FP), DX
	MOVQ  ldb+40(FP), R8
	MOVQ  k+48(FP), CX
	LEAQ  (DX)(R8*2), R9
	VPXOR Y0, Y0, Y0
	VPXOR Y1, Y1, Y1
	VPXOR Y2, Y2, Y2
	VPXOR Y3, Y3, Y3
	VPXOR Y4, Y4, Y4
	VPXOR Y5, Y5, Y5
	VPXOR Y6, Y6, Y6
	VPXOR Y7, Y7, Y7

loop:
	VMOVDQU  (SI), Y8
	VMOVDQU  (SI)(R10*1), Y9
	VMOVDQU  (DX), Y10
	VMOVDQU  (DX)(R8*1), Y11
	VPMADDWD Y10, Y8, Y12
	VPMADDWD Y10, Y9, Y13
	VPADDD   Y12, Y0, Y0
	VPADDD   Y13, Y4, Y4
	VPMADDWD Y11, Y8, Y14
	VPMADDWD Y11, Y9, Y15
	VPADDD   Y14, Y1, Y1
	VPADDD   Y15, Y5, Y5
	VMOVDQU  (R9), Y10
	VMOVDQU  (R9)(R8*1), Y11
	VPMADDWD Y10, Y8, Y12
	VPMADDWD Y10, Y9, Y13
	VPADDD   Y12, Y2, Y2
	VPADDD   Y13, Y6, Y6
	VPMADDWD Y11, Y8, Y14
	VPMADDWD Y11, Y9, Y15
	VPADDD   Y14, Y3, Y3
	VPADDD   Y15, Y7, Y7
	ADDQ     $32, SI
	ADDQ     $32, DX
	ADDQ     $32, R9
	SUBQ     $16, CX
	JNZ      loop
	SUMS(Y0, Y1, Y2, Y3, X0, X8)
	VMOVDQU  X0, (DI)
	SUMS(Y4, Y5, Y6, Y7, X4, X8)
	VMOVDQU  X4, (DI)(R11*1)
	VZEROUPPER
	RET
