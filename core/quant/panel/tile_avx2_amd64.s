//go:build amd64 && !purego

#include "textflag.h"
#include "tile256_amd64.h"

// Sums of pairs in 16 bits, as in row_avx2_amd64.s. Bytes of 8 bits are two of
// 4: 16·u + l.

#define WORDS(name, value) \
	DATA name<>+0(SB)/8, value  \
	DATA name<>+8(SB)/8, value  \
	DATA name<>+16(SB)/8, value \
	DATA name<>+24(SB)/8, value \
	GLOBL name<>(SB), RODATA|NOPTR, $32

WORDS(ones16, $0x0001000100010001)
WORDS(sixteens16, $0x0010001000100010)

#define SETROW(a, b) \
	VPMADDUBSW Y10, Y8, a \
	VPMADDUBSW Y10, Y9, b
#define SETROW0 SETROW(Y0, Y1)
#define SETROW1 SETROW(Y2, Y3)
#define SETROW2 SETROW(Y4, Y5)
#define SETROW3 SETROW(Y6, Y7)

#define ADDROW(a, b) \
	SETROW(Y11, Y12)   \
	VPADDW Y11, a, a   \
	VPADDW Y12, b, b
#define ADDROW0 ADDROW(Y0, Y1)
#define ADDROW1 ADDROW(Y2, Y3)
#define ADDROW2 ADDROW(Y4, Y5)
#define ADDROW3 ADDROW(Y6, Y7)

// WIDEN makes sums of 32 bits.
#define WIDEN(by) \
	VPMADDWD by, Y0, Y0 \
	VPMADDWD by, Y1, Y1 \
	VPMADDWD by, Y2, Y2 \
	VPMADDWD by, Y3, Y3 \
	VPMADDWD by, Y4, Y4 \
	VPMADDWD by, Y5, Y5 \
	VPMADDWD by, Y6, Y6 \
	VPMADDWD by, Y7, Y7

// PUT saves them, GET adds them to others.
#define PUT \
	VMOVDQU Y0, 256(R15) \
	VMOVDQU Y1, 288(R15) \
	VMOVDQU Y2, 320(R15) \
	VMOVDQU Y3, 352(R15) \
	VMOVDQU Y4, 384(R15) \
	VMOVDQU Y5, 416(R15) \
	VMOVDQU Y6, 448(R15) \
	VMOVDQU Y7, 480(R15)

#define GET \
	VPADDD 256(R15), Y0, Y0 \
	VPADDD 288(R15), Y1, Y1 \
	VPADDD 320(R15), Y2, Y2 \
	VPADDD 352(R15), Y3, Y3 \
	VPADDD 384(R15), Y4, Y4 \
	VPADDD 416(R15), Y5, Y5 \
	VPADDD 448(R15), Y6, Y6 \
	VPADDD 480(R15), Y7, Y7

#define NARROW \
	EIGHT(SI)  \
	WIDEN(Y15)

#define FIVE \
	FOUR(0, SI) \
	WIDEN(Y15)  \
	PUT         \
	FOUR(4, SI) \
	WIDEN(Y15)  \
	GET

#define WHOLE \
	EIGHT(DX)                  \
	WIDEN(sixteens16<>(SB))    \
	PUT                        \
	EIGHT(SI)                  \
	WIDEN(Y15)                 \
	GET

#define LOWER(at) \
	FOUR(at, SI) \
	WIDEN(Y15)

#define SIX(at) \
	TWO(at, SI)     \
	WIDEN(Y15)      \
	PUT             \
	TWO((at+2), SI) \
	WIDEN(Y15)      \
	GET

#define ONES VMOVDQU ones16<>(SB), Y15

// func tileQ8AVX2(y *float32, ldy int, w, high *int8, scale, minimum *float32, x *int8, d, sum *float32, fix *int32, groups int)
TEXT ·tileQ8AVX2(SB), $576-88
	ONES
	TILE32(WHOLE, FIX0, NOLESS)

// func tileQ4AVX2(y *float32, ldy int, w, high *int8, scale, minimum *float32, x *int8, d, sum *float32, fix *int32, groups int)
TEXT ·tileQ4AVX2(SB), $576-88
	ONES
	TILE32(NARROW, FIX4, NOLESS)

// func tileQ4MinAVX2(y *float32, ldy int, w, high *int8, scale, minimum *float32, x *int8, d, sum *float32, fix *int32, groups int)
TEXT ·tileQ4MinAVX2(SB), $576-88
	ONES
	TILE32(NARROW, NOFIX, LESS)

// func tileQ5AVX2(y *float32, ldy int, w, high *int8, scale, minimum *float32, x *int8, d, sum *float32, fix *int32, groups int)
TEXT ·tileQ5AVX2(SB), $576-88
	ONES
	TILE32(FIVE, FIX3, NOLESS)

// func tileQ5MinAVX2(y *float32, ldy int, w, high *int8, scale, minimum *float32, x *int8, d, sum *float32, fix *int32, groups int)
TEXT ·tileQ5MinAVX2(SB), $576-88
	ONES
	TILE32(FIVE, NOFIX, LESS)

// func tileQ6AVX2(y *float32, ldy int, w, high *int8, scale, minimum *float32, x *int8, d, sum *float32, fix *int32, groups int)
TEXT ·tileQ6AVX2(SB), $576-88
	ONES
	TILE16(SIX, FIX2, FIX2U)

// func tileQ3AVX2(y *float32, ldy int, w, high *int8, scale, minimum *float32, x *int8, d, sum *float32, fix *int32, groups int)
TEXT ·tileQ3AVX2(SB), $576-88
	ONES
	TILE16(LOWER, FIX5, FIX5U)

// func tileQ2AVX2(y *float32, ldy int, w, high *int8, scale, minimum *float32, x *int8, d, sum *float32, fix *int32, groups int)
TEXT ·tileQ2AVX2(SB), $576-88
	ONES
	TILE16(LOWER, NOFIX, NOFIX)

