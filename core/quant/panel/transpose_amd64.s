//go:build amd64 && !purego

#include "textflag.h"

// func transposeAVX2(dst, src *byte, stride, n, srcStep, dstStep, apart int)
//
// n times: 16 bytes of each of 8 rows, stride apart, become four times the
// words of the 8 rows, 32 bytes, apart bytes apart. src and dst then advance by
// their steps.
TEXT ·transposeAVX2(SB), NOSPLIT, $0-56
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ stride+16(FP), AX
	MOVQ n+24(FP), CX
	MOVQ srcStep+32(FP), R8
	MOVQ dstStep+40(FP), R9
	MOVQ apart+48(FP), R12
	LEAQ (AX)(AX*2), R10    // 3 strides
	LEAQ (R12)(R12*2), R13

loop:
	LEAQ        (SI)(AX*4), R11
	VMOVDQU     (SI), X0
	VMOVDQU     (SI)(AX*1), X1
	VMOVDQU     (SI)(AX*2), X2
	VMOVDQU     (SI)(R10*1), X3
	VINSERTI128 $1, (R11), Y0, Y0
	VINSERTI128 $1, (R11)(AX*1), Y1, Y1
	VINSERTI128 $1, (R11)(AX*2), Y2, Y2
	VINSERTI128 $1, (R11)(R10*1), Y3, Y3
	VPUNPCKLDQ  Y1, Y0, Y4 // a0 b0 a1 b1
	VPUNPCKHDQ  Y1, Y0, Y5 // a2 b2 a3 b3
	VPUNPCKLDQ  Y3, Y2, Y6
	VPUNPCKHDQ  Y3, Y2, Y7
	VPUNPCKLQDQ Y6, Y4, Y0
	VPUNPCKHQDQ Y6, Y4, Y1
	VPUNPCKLQDQ Y7, Y5, Y2
	VPUNPCKHQDQ Y7, Y5, Y3
	VMOVDQU     Y0, (DI)
	VMOVDQU     Y1, (DI)(R12*1)
	VMOVDQU     Y2, (DI)(R12*2)
	VMOVDQU     Y3, (DI)(R13*1)
	ADDQ        R8, SI
	ADDQ        R9, DI
	DECQ        CX
	JNZ         loop
	VZEROUPPER
	RET

// func transposeHalvesAVX2(dst, src *byte, stride, n int)
//
// n times: 8 numbers of 2 bytes of each of 8 rows, stride apart, become 8
// times the numbers of the 8 rows, 16 bytes, 64 bytes apart.
TEXT ·transposeHalvesAVX2(SB), NOSPLIT, $0-32
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ stride+16(FP), AX
	MOVQ n+24(FP), CX
	LEAQ (AX)(AX*2), R10

loop:
	LEAQ        (SI)(AX*4), R11
	VMOVDQU     (SI), X0
	VMOVDQU     (SI)(AX*1), X1
	VMOVDQU     (SI)(AX*2), X2
	VMOVDQU     (SI)(R10*1), X3
	VMOVDQU     (R11), X4
	VMOVDQU     (R11)(AX*1), X5
	VMOVDQU     (R11)(AX*2), X6
	VMOVDQU     (R11)(R10*1), X7
	VPUNPCKLWD  X1, X0, X8  // a0 b0 a1 b1 a2 b2 a3 b3
	VPUNPCKHWD  X1, X0, X9  // a4 …
	VPUNPCKLWD  X3, X2, X10
	VPUNPCKHWD  X3, X2, X11
	VPUNPCKLWD  X5, X4, X12
	VPUNPCKHWD  X5, X4, X13
	VPUNPCKLWD  X7, X6, X14
	VPUNPCKHWD  X7, X6, X15
	VPUNPCKLDQ  X10, X8, X0  // a0 b0 c0 d0 a1 b1 c1 d1
	VPUNPCKHDQ  X10, X8, X1  // a2 …
	VPUNPCKLDQ  X11, X9, X2
	VPUNPCKHDQ  X11, X9, X3
	VPUNPCKLDQ  X14, X12, X4
	VPUNPCKHDQ  X14, X12, X5
	VPUNPCKLDQ  X15, X13, X6
	VPUNPCKHDQ  X15, X13, X7
	VPUNPCKLQDQ X4, X0, X8
	VPUNPCKHQDQ X4, X0, X9
	VPUNPCKLQDQ X5, X1, X10
	VPUNPCKHQDQ X5, X1, X11
	VPUNPCKLQDQ X6, X2, X12
	VPUNPCKHQDQ X6, X2, X13
	VPUNPCKLQDQ X7, X3, X14
	VPUNPCKHQDQ X7, X3, X15
	VMOVDQU     X8, (DI)
	VMOVDQU     X9, 64(DI)
	VMOVDQU     X10, 128(DI)
	VMOVDQU     X11, 192(DI)
	VMOVDQU     X12, 256(DI)
	VMOVDQU     X13, 320(DI)
	VMOVDQU     X14, 384(DI)
	VMOVDQU     X15, 448(DI)
	ADDQ        $16, SI
	ADDQ        $512, DI
	DECQ        CX
	JNZ         loop
	VZEROUPPER
	RET
