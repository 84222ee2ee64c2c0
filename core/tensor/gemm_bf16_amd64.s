//go:build amd64 && !purego

#include "textflag.h"
#include "gemm_amd64.h"

// The tiles of gemm_amd64.s over pairs of bfloat16: a 32-bit element of A or B
// there is a pair of consecutive elements along k here, the first in the lower
// half, and VDPBF16PS adds both products to C's float32. The assembler lacks the
// instructions of AVX512_BF16, so they are written as bytes: high
// is the byte of the destination's upper bits, left that of the broadcast
// register, and last the lower bits of the destination and the register of B.
#define VDPBF16PS(high, left, last) \
	BYTE $0x62; BYTE $high; BYTE $left; BYTE $0x48; BYTE $0x52; BYTE $last

#define LOW  0x72 // Z8 to Z15
#define MID  0xE2 // Z16 to Z23
#define HIGH 0x62 // Z24 to Z31

#define BYZ2 0x6E
#define BYZ3 0x66
#define BYZ4 0x5E
#define BYZ5 0x56
#define BYZ6 0x4E
#define BYZ7 0x46

// One row of a tile: broadcast a pair of A, two accumulators of 16 columns, the
// first of which is the eight's 0, 2, 4 or 6.
#define DOT0(addr, t, high, left) VBROADCASTSS addr, t; VDPBF16PS(high, left, 0xC0); VDPBF16PS(high, left, 0xC9)
#define DOT2(addr, t, high, left) VBROADCASTSS addr, t; VDPBF16PS(high, left, 0xD0); VDPBF16PS(high, left, 0xD9)
#define DOT4(addr, t, high, left) VBROADCASTSS addr, t; VDPBF16PS(high, left, 0xE0); VDPBF16PS(high, left, 0xE9)
#define DOT6(addr, t, high, left) VBROADCASTSS addr, t; VDPBF16PS(high, left, 0xF0); VDPBF16PS(high, left, 0xF9)

// func gemmPairs12x32(k int, a *float32, rs, cs uintptr, b, c *float32, ldc uintptr, alpha, beta float32)
TEXT ·gemmPairs12x32(SB), NOSPLIT, $0-64
	ARGS
	ROWS12(CLEAR512)

loop:
	VMOVUPS (BX), Z0
	VMOVUPS 64(BX), Z1
	DOT0((AX), Z2, LOW, BYZ2)
	DOT2((AX)(R8*1), Z3, LOW, BYZ3)
	DOT4((AX)(R8*2), Z4, LOW, BYZ4)
	DOT6((R9), Z5, LOW, BYZ5)
	DOT0((R9)(R8*1), Z6, MID, BYZ6)
	DOT2((R9)(R8*2), Z7, MID, BYZ7)
	DOT4((R10), Z2, MID, BYZ2)
	DOT6((R10)(R8*1), Z3, MID, BYZ3)
	DOT0((R10)(R8*2), Z4, HIGH, BYZ4)
	DOT2((R11), Z5, HIGH, BYZ5)
	DOT4((R11)(R8*1), Z6, HIGH, BYZ6)
	DOT6((R11)(R8*2), Z7, HIGH, BYZ7)
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

// func gemmPairs4x32(k int, a *float32, rs, cs uintptr, b, c *float32, ldc uintptr, alpha, beta float32)
TEXT ·gemmPairs4x32(SB), NOSPLIT, $0-64
	ARGS
	ROWS4(CLEAR512)

loop:
	VMOVUPS (BX), Z0
	VMOVUPS 64(BX), Z1
	DOT0((AX), Z2, LOW, BYZ2)
	DOT2((AX)(R8*1), Z3, LOW, BYZ3)
	DOT4((AX)(R8*2), Z4, LOW, BYZ4)
	DOT6((R9), Z5, LOW, BYZ5)
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

// func gemmPairs1x32(k int, a *float32, rs, cs uintptr, b, c *float32, ldc uintptr, alpha, beta float32)
TEXT ·gemmPairs1x32(SB), NOSPLIT, $0-64
	ARGS
	CLEAR512(Z8, Z9)

loop:
	VMOVUPS (BX), Z0
	VMOVUPS 64(BX), Z1
	DOT0((AX), Z2, LOW, BYZ2)
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

// The words of two registers, taken in turns.
DATA pairOrder<>+0(SB)/8, $0x0011000100100000
DATA pairOrder<>+8(SB)/8, $0x0013000300120002
DATA pairOrder<>+16(SB)/8, $0x0015000500140004
DATA pairOrder<>+24(SB)/8, $0x0017000700160006
DATA pairOrder<>+32(SB)/8, $0x0019000900180008
DATA pairOrder<>+40(SB)/8, $0x001b000b001a000a
DATA pairOrder<>+48(SB)/8, $0x001d000d001c000c
DATA pairOrder<>+56(SB)/8, $0x001f000f001e000e
GLOBL pairOrder<>(SB), RODATA|NOPTR, $64

// VCVTNE2PS2BF16 Z0, Z1, Z2: the numbers of Z0 to Z2's lower half, those of Z1
// to its upper one.
#define ROUND BYTE $0x62; BYTE $0xF2; BYTE $0x77; BYTE $0x48; BYTE $0x72; BYTE $0xD0

// func pairAlong(n32 int, src, dst *float32)
TEXT ·pairAlong(SB), NOSPLIT, $0-24
	MOVQ n32+0(FP), CX
	MOVQ src+8(FP), SI
	MOVQ dst+16(FP), DI

loop:
	VMOVUPS (SI), Z0
	VMOVUPS 64(SI), Z1
	ROUND
	VMOVUPS Z2, (DI)
	ADDQ $128, SI
	ADDQ $64, DI
	DECQ CX
	JNZ  loop
	VZEROUPPER
	RET

// func pairAcross(pairs, n16 int, src *float32, lds uintptr, dst *float32, ldd uintptr)
TEXT ·pairAcross(SB), NOSPLIT, $0-48
	MOVQ pairs+0(FP), R8
	MOVQ n16+8(FP), R9
	MOVQ src+16(FP), SI
	MOVQ lds+24(FP), R10
	MOVQ dst+32(FP), DI
	MOVQ ldd+40(FP), R11
	VMOVUPS pairOrder<>(SB), Z3

rows:
	MOVQ SI, AX
	LEAQ (SI)(R10*1), BX
	MOVQ DI, DX
	MOVQ R9, CX

columns:
	VMOVUPS (AX), Z0
	VMOVUPS (BX), Z1
	ROUND
	VPERMW Z2, Z3, Z2
	VMOVUPS Z2, (DX)
	ADDQ $64, AX
	ADDQ $64, BX
	ADDQ $64, DX
	DECQ CX
	JNZ  columns
	LEAQ (SI)(R10*2), SI
	ADDQ R11, DI
	DECQ R8
	JNZ  rows
	VZEROUPPER
	RET

// func roundAVX2(n8 int, src, dst *float32)
TEXT ·roundAVX2(SB), NOSPLIT, $0-24
	MOVQ n8+0(FP), CX
	MOVQ src+8(FP), SI
	MOVQ dst+16(FP), DI
	VPCMPEQD Y15, Y15, Y15
	VPSRLD $17, Y15, Y8  // just less than half of the upper half
	VPSLLD $16, Y15, Y9  // mask of the upper half
	VPSRLD $31, Y15, Y10 // one
	VPSLLD $24, Y15, Y11
	VPSRLD $1, Y11, Y11  // the exponent
	VPSLLD $31, Y15, Y12 // the sign
	VPSLLD $22, Y10, Y13 // what makes a NaN quiet
	VPXOR Y14, Y14, Y14

loop:
	VMOVDQU (SI), Y0
	VPSRLD $16, Y0, Y1
	VPAND Y10, Y1, Y1
	VPADDD Y8, Y1, Y1
	VPADDD Y0, Y1, Y1
	VCMPPS $3, Y0, Y0, Y2
	VPOR Y13, Y0, Y3
	VBLENDVPS Y2, Y3, Y1, Y1
	VPAND Y9, Y1, Y1
	VPAND Y11, Y0, Y4
	VPCMPEQD Y14, Y4, Y4
	VPAND Y12, Y0, Y5
	VBLENDVPS Y4, Y5, Y1, Y1
	VMOVDQU Y1, (DI)
	ADDQ $32, SI
	ADDQ $32, DI
	DECQ CX
	JNZ  loop
	VZEROUPPER
	RET
