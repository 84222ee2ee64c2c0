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
CONST32(bits01, $0x0303030303030303)
CONST32(bit2, $0x0404040404040404)
CONST32(sign, $0x8080808080808080)

// The unpacking kernels write 32 columns of 16 rows, 512 bytes, from 128, 192,
// 256, 320 or 384. Registers: DI to, SI from, CX groups; Y15 nibble, Y14 offset, Y13
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



// PAIR writes unit i of Y0 at to, two bits and the bit of HIGH.
#define PAIR(i, HIGH, to) \
	VPSRLD  $(2*i), Y0, Y1 \
	VPAND   Y15, Y1, Y1    \
	HIGH                   \
	VPSUBB  Y14, Y1, Y1    \
	VMOVDQU Y1, to(DI)

#define NOTHING

#define BIT2 \
	VPAND Y13, Y3, Y3  \
	VPOR  Y3, Y1, Y1

#define PAIRS(from, to, H0, H1, H2, H3) \
	VMOVDQU from(SI), Y0   \
	PAIR(0, H0, to)        \
	PAIR(1, H1, (to+64))   \
	PAIR(2, H2, (to+128))  \
	PAIR(3, H3, (to+192))

// func unpack2AVX2(dst *int8, q *byte, groups int, offset int8)
TEXT ·unpack2AVX2(SB), NOSPLIT, $0-25
	UNPACK
	VMOVDQU bits01<>(SB), Y15

loop:
	PAIRS(0, 0, NOTHING, NOTHING, NOTHING, NOTHING)
	PAIRS(32, 32, NOTHING, NOTHING, NOTHING, NOTHING)
	PAIRS(64, 256, NOTHING, NOTHING, NOTHING, NOTHING)
	PAIRS(96, 288, NOTHING, NOTHING, NOTHING, NOTHING)
	ADDQ $128, SI
	ADDQ $512, DI
	DECQ CX
	JNZ  loop
	VZEROUPPER
	RET

// Bit i of Y2 becomes bit 2.
#define HIGH0 \
	VPSLLD $2, Y2, Y3 \
	BIT2
#define HIGH1 \
	VPSLLD $1, Y2, Y3 \
	BIT2
#define HIGH2 \
	VMOVDQA Y2, Y3 \
	BIT2
#define HIGH3 \
	VPSRLD $1, Y2, Y3 \
	BIT2
#define HIGH4 \
	VPSRLD $2, Y2, Y3 \
	BIT2
#define HIGH5 \
	VPSRLD $3, Y2, Y3 \
	BIT2
#define HIGH6 \
	VPSRLD $4, Y2, Y3 \
	BIT2
#define HIGH7 \
	VPSRLD $5, Y2, Y3 \
	BIT2

// func unpack3AVX2(dst *int8, q *byte, groups int, offset int8)
TEXT ·unpack3AVX2(SB), NOSPLIT, $0-25
	UNPACK
	VMOVDQU bits01<>(SB), Y15
	VMOVDQU bit2<>(SB), Y13

loop:
	VMOVDQU 128(SI), Y2
	PAIRS(0, 0, HIGH0, HIGH1, HIGH2, HIGH3)
	PAIRS(64, 256, HIGH4, HIGH5, HIGH6, HIGH7)
	VMOVDQU 160(SI), Y2
	PAIRS(32, 32, HIGH0, HIGH1, HIGH2, HIGH3)
	PAIRS(96, 288, HIGH4, HIGH5, HIGH6, HIGH7)
	ADDQ $192, SI
	ADDQ $512, DI
	DECQ CX
	JNZ  loop
	VZEROUPPER
	RET

#define LOOK(at) \
	NIBBLES(at)             \
	VPSHUFB Y1, Y14, Y1     \
	VPSHUFB Y0, Y14, Y0     \
	VMOVDQU Y1, at(DI)      \
	VMOVDQU Y0, (at+256)(DI)

// func unpackTableAVX2(dst *int8, q *byte, groups int, table *int8)
TEXT ·unpackTableAVX2(SB), NOSPLIT, $0-32
	MOVQ           dst+0(FP), DI
	MOVQ           q+8(FP), SI
	MOVQ           groups+16(FP), CX
	MOVQ           table+24(FP), AX
	VMOVDQU        nibble<>(SB), Y15
	VBROADCASTI128 (AX), Y14

loop:
	LOOK(0)
	LOOK(32)
	LOOK(64)
	LOOK(96)
	LOOK(128)
	LOOK(160)
	LOOK(192)
	LOOK(224)
	ADDQ $256, SI
	ADDQ $512, DI
	DECQ CX
	JNZ  loop
	VZEROUPPER
	RET

#define SPLIT(at) \
	VPXOR   at(SI), Y14, Y0  \
	VPSRLD  $4, Y0, Y1       \
	VPAND   Y15, Y0, Y0      \
	VPAND   Y15, Y1, Y1      \
	VMOVDQU Y0, at(DI)       \
	VMOVDQU Y1, at(DX)

// func splitAVX2(low, high *int8, q *byte, groups int)
TEXT ·splitAVX2(SB), NOSPLIT, $0-32
	MOVQ    low+0(FP), DI
	MOVQ    high+8(FP), DX
	MOVQ    q+16(FP), SI
	MOVQ    groups+24(FP), CX
	SHLQ    $2, CX
	VMOVDQU nibble<>(SB), Y15
	VMOVDQU sign<>(SB), Y14

loop:
	SPLIT(0)
	SPLIT(32)
	SPLIT(64)
	SPLIT(96)
	ADDQ $128, SI
	ADDQ $128, DI
	ADDQ $128, DX
	DECQ CX
	JNZ  loop
	VZEROUPPER
	RET
