//go:build amd64 && !purego

#include "textflag.h"

#define CONST32(name, value) \
	DATA name<>+0(SB)/8, value  \
	DATA name<>+8(SB)/8, value  \
	DATA name<>+16(SB)/8, value \
	DATA name<>+24(SB)/8, value \
	GLOBL name<>(SB), RODATA|NOPTR, $32

CONST32(nibble, $0x0f0f0f0f0f0f0f0f)
CONST32(bit4, $0x1010101010101010)
CONST32(bits45, $0x3030303030303030)

// The unpacking kernels write 32 columns of 16 rows, 512 bytes, from 256, 320
// or 384. Registers: DI to, SI from, CX groups; Y15 nibble, Y14 offset, Y13
// the mask of the upper bits.

#define UNPACK \
	MOVQ         dst+0(FP), DI      \
	MOVQ         q+8(FP), SI        \
	MOVQ         groups+16(FP), CX  \
	VMOVDQU      nibble<>(SB), Y15  \
	VPBROADCASTB offset+24(FP), Y14

#define NIBBLES(from) \
	VMOVDQU from(SI), Y0   \
	VPAND   Y15, Y0, Y1    \
	VPSRLD  $4, Y0, Y0     \
	VPAND   Y15, Y0, Y0

#define WRITE(to) \
	VPSUBB  Y14, Y1, Y1      \
	VPSUBB  Y14, Y0, Y0      \
	VMOVDQU Y1, to(DI)       \
	VMOVDQU Y0, (to+256)(DI)

#define UPPER(INTO, reg) \
	INTO             \
	VPAND Y13, Y4, Y4 \
	VPOR  Y4, reg, reg
// Y2 and Y3 are the halves of a plane; bit i goes to bit 4.
#define L4(p) VPSLLD $4, p, Y4
#define L3(p) VPSLLD $3, p, Y4
#define L2(p) VPSLLD $2, p, Y4
#define L1(p) VPSLLD $1, p, Y4
#define R0(p) VMOVDQA p, Y4
#define R1(p) VPSRLD $1, p, Y4
#define R2(p) VPSRLD $2, p, Y4
#define R3(p) VPSRLD $3, p, Y4

#define FIVE(at, LOW, HIGH, p) \
	NIBBLES(at)          \
	UPPER(LOW(p), Y1)    \
	UPPER(HIGH(p), Y0)   \
	WRITE(at)
// Y2, Y3 are the halves of the plane of units 0 to 3, Y5, Y6 those of 4 to 7.
#define SIX(at, SHIFT, low, high) \
	NIBBLES(at)             \
	UPPER(SHIFT(low), Y1)   \
	UPPER(SHIFT(high), Y0)  \
	WRITE(at)

// func unpack4AVX2(dst *int8, q *byte, groups int, offset int8)
TEXT ·unpack4AVX2(SB), NOSPLIT, $0-25
	UNPACK

loop:
	NIBBLES(0)
	WRITE(0)
	NIBBLES(32)
	WRITE(32)
	NIBBLES(64)
	WRITE(64)
	NIBBLES(96)
	WRITE(96)
	NIBBLES(128)
	WRITE(128)
	NIBBLES(160)
	WRITE(160)
	NIBBLES(192)
	WRITE(192)
	NIBBLES(224)
	WRITE(224)
	ADDQ $256, SI
	ADDQ $512, DI
	DECQ CX
	JNZ  loop
	VZEROUPPER
	RET


// func unpack5AVX2(dst *int8, q *byte, groups int, offset int8)
TEXT ·unpack5AVX2(SB), NOSPLIT, $0-25
	UNPACK
	VMOVDQU bit4<>(SB), Y13

loop:
	VMOVDQU 256(SI), Y2
	VMOVDQU 288(SI), Y3
	FIVE(0, L4, R0, Y2)
	FIVE(32, L4, R0, Y3)
	FIVE(64, L3, R1, Y2)
	FIVE(96, L3, R1, Y3)
	FIVE(128, L2, R2, Y2)
	FIVE(160, L2, R2, Y3)
	FIVE(192, L1, R3, Y2)
	FIVE(224, L1, R3, Y3)
	ADDQ $320, SI
	ADDQ $512, DI
	DECQ CX
	JNZ  loop
	VZEROUPPER
	RET


// func unpack6AVX2(dst *int8, q *byte, groups int, offset int8)
TEXT ·unpack6AVX2(SB), NOSPLIT, $0-25
	UNPACK
	VMOVDQU bits45<>(SB), Y13

loop:
	VMOVDQU 256(SI), Y2
	VMOVDQU 288(SI), Y3
	VMOVDQU 320(SI), Y5
	VMOVDQU 352(SI), Y6
	SIX(0, L4, Y2, Y5)
	SIX(32, L4, Y3, Y6)
	SIX(64, L2, Y2, Y5)
	SIX(96, L2, Y3, Y6)
	SIX(128, R0, Y2, Y5)
	SIX(160, R0, Y3, Y6)
	SIX(192, R2, Y2, Y5)
	SIX(224, R2, Y3, Y6)
	ADDQ $384, SI
	ADDQ $512, DI
	DECQ CX
	JNZ  loop
	VZEROUPPER
	RET

