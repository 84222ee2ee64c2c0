//go:build amd64 && !purego

#include "textflag.h"
#include "avxvnni_amd64.h"
#include "tile256_amd64.h"

#define ADDROW0 \
	DPBUSD(10, 8, 0) \
	DPBUSD(10, 9, 1)
#define ADDROW1 \
	DPBUSD(10, 8, 2) \
	DPBUSD(10, 9, 3)
#define ADDROW2 \
	DPBUSD(10, 8, 4) \
	DPBUSD(10, 9, 5)
#define ADDROW3 \
	DPBUSD(10, 8, 6) \
	DPBUSD(10, 9, 7)

#define SETROW0 \
	VPXOR Y0, Y0, Y0 \
	VPXOR Y1, Y1, Y1 \
	ADDROW0
#define SETROW1 \
	VPXOR Y2, Y2, Y2 \
	VPXOR Y3, Y3, Y3 \
	ADDROW1
#define SETROW2 \
	VPXOR Y4, Y4, Y4 \
	VPXOR Y5, Y5, Y5 \
	ADDROW2
#define SETROW3 \
	VPXOR Y6, Y6, Y6 \
	VPXOR Y7, Y7, Y7 \
	ADDROW3

#define NARROW EIGHT(SI)
#define FIVE EIGHT(SI)
#define LOWER(at) FOUR(at, SI)
#define SIX(at) FOUR(at, SI)

// FLIP adds 128 to signed weights.
#define FLIP(row) \
	VPXOR Y15, Y8, Y8 \
	VPXOR Y15, Y9, Y9 \
	row
#define SETF(i) UNIT(i, SI, FLIP(SETROW0), SETROW1, SETROW2, SETROW3)
#define ADDF(i) UNIT(i, SI, FLIP(ADDROW0), ADDROW1, ADDROW2, ADDROW3)

#define WHOLE \
	SETF(0) \
	ADDF(1) \
	ADDF(2) \
	ADDF(3) \
	ADDF(4) \
	ADDF(5) \
	ADDF(6) \
	ADDF(7)

// func tileQ8AVXVNNI(y *float32, ldy int, w, high *int8, scale, minimum *float32, x *int8, d, sum *float32, fix *int32, groups int)
TEXT ·tileQ8AVXVNNI(SB), $576-88
	VMOVDQU sign<>(SB), Y15
	TILE32(WHOLE, FIX0, NOLESS)

// func tileQ4AVXVNNI(y *float32, ldy int, w, high *int8, scale, minimum *float32, x *int8, d, sum *float32, fix *int32, groups int)
TEXT ·tileQ4AVXVNNI(SB), $576-88
	TILE32(NARROW, FIX4, NOLESS)

// func tileQ4MinAVXVNNI(y *float32, ldy int, w, high *int8, scale, minimum *float32, x *int8, d, sum *float32, fix *int32, groups int)
TEXT ·tileQ4MinAVXVNNI(SB), $576-88
	TILE32(NARROW, NOFIX, LESS)

// func tileQ5AVXVNNI(y *float32, ldy int, w, high *int8, scale, minimum *float32, x *int8, d, sum *float32, fix *int32, groups int)
TEXT ·tileQ5AVXVNNI(SB), $576-88
	TILE32(FIVE, FIX3, NOLESS)

// func tileQ6AVXVNNI(y *float32, ldy int, w, high *int8, scale, minimum *float32, x *int8, d, sum *float32, fix *int32, groups int)
TEXT ·tileQ6AVXVNNI(SB), $576-88
	TILE16(SIX, FIX2, FIX2U)

// func tileQ3AVXVNNI(y *float32, ldy int, w, high *int8, scale, minimum *float32, x *int8, d, sum *float32, fix *int32, groups int)
TEXT ·tileQ3AVXVNNI(SB), $576-88
	TILE16(LOWER, FIX5, FIX5U)

// func tileQ2AVXVNNI(y *float32, ldy int, w, high *int8, scale, minimum *float32, x *int8, d, sum *float32, fix *int32, groups int)
TEXT ·tileQ2AVXVNNI(SB), $576-88
	TILE16(LOWER, NOFIX, NOFIX)

