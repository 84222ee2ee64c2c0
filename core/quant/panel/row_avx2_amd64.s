//go:build amd64 && !purego

#include "textflag.h"
#include "row256_amd64.h"

// VPMADDUBSW adds pairs of products in 16 bits, of which one factor is
// unsigned. A pair of w·x is at most 254·w, so that weights of 4 bits fit
// there eight times, of 5 bits four times and of 6 bits twice, before
// VPMADDWD widens them. Signed bytes fit once: the sign of weights moves to the
// activations.

CONST32(ones16, $0x0001000100010001)

// quant.TableIQ4.
DATA tableIQ4<>+0(SB)/8, $0xf6eaddcfbfad9881
DATA tableIQ4<>+8(SB)/8, $0x7159453526190d01
GLOBL tableIQ4<>(SB), RODATA|NOPTR, $16

#define SET0 VPMADDUBSW Y9, Y6, Y2
#define SET1 VPMADDUBSW Y9, Y6, Y3
#define SET2 VPMADDUBSW Y10, Y7, Y4
#define SET3 VPMADDUBSW Y10, Y7, Y5

#define ADD(w, x, acc) \
	VPMADDUBSW x, w, Y8     \
	VPADDW     Y8, acc, acc
#define ADD0 ADD(Y6, Y9, Y2)
#define ADD1 ADD(Y6, Y9, Y3)
#define ADD2 ADD(Y7, Y10, Y4)
#define ADD3 ADD(Y7, Y10, Y5)

#define SETL0 VPMADDUBSW Y9, Y6, Y2
#define SETH0 VPMADDUBSW Y10, Y7, Y3
#define SETL1 VPMADDUBSW Y9, Y6, Y4
#define SETH1 VPMADDUBSW Y10, Y7, Y5
#define ADDL0 ADD(Y6, Y9, Y2)
#define ADDH0 ADD(Y7, Y10, Y3)
#define ADDL1 ADD(Y6, Y9, Y4)
#define ADDH1 ADD(Y7, Y10, Y5)

// Y12 is zero: VPABSB would compete for the ports of the next instructions.
#define SETS(w, x, acc) \
	VPSUBB     w, Y12, Y8    \
	VPMINUB    w, Y8, Y8     \
	VPSIGNB    w, x, w       \
	VPMADDUBSW w, Y8, Y8     \
	VPMADDWD   Y14, Y8, acc
#define SETSL0 SETS(Y6, Y9, Y2)
#define SETSH0 SETS(Y7, Y10, Y3)
#define SETSL1 SETS(Y6, Y9, Y4)
#define SETSH1 SETS(Y7, Y10, Y5)

#define ADDS(w, x, acc) \
	SETS(w, x, Y8)        \
	VPADDD Y8, acc, acc
#define ADDSL0 ADDS(Y6, Y9, Y2)
#define ADDSH0 ADDS(Y7, Y10, Y3)
#define ADDSL1 ADDS(Y6, Y9, Y4)
#define ADDSH1 ADDS(Y7, Y10, Y5)

// Restore the ones in Y14, which held the two bits.
#define QUARTER \
	VPSRAW  $2, Y3, Y3 \
	VPSRAW  $2, Y5, Y5 \
	VMOVDQU ones16<>(SB), Y14

#define FLIP
#define FIXS
#define TABLE VBROADCASTI128 tableIQ4<>(SB), Y13

#define SUM8 PARTS4
#define SUM4 PARTS2

#define SUMS \
	VPADDD Y3, Y2, Y2 \
	VPADDD Y5, Y4, Y4

#define PARTS4 \
	VPADDW   Y3, Y2, Y2  \
	VPADDW   Y5, Y4, Y4  \
	VPMADDWD Y14, Y2, Y2 \
	VPMADDWD Y14, Y4, Y4

#define PARTS2 \
	VPMADDWD Y14, Y2, Y2 \
	VPMADDWD Y14, Y3, Y3 \
	VPMADDWD Y14, Y4, Y4 \
	VPMADDWD Y14, Y5, Y5 \
	VPADDD   Y3, Y2, Y2  \
	VPADDD   Y5, Y4, Y4

#define ONES VMOVDQU ones16<>(SB), Y14

// func rowQ8AVX2(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)
TEXT ·rowQ8AVX2(SB), NOSPLIT, $0-72
	ONES
	VPXOR Y12, Y12, Y12
	ROWQ8

// func rowQ4AVX2(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)
TEXT ·rowQ4AVX2(SB), NOSPLIT, $0-72
	ONES
	ROWQ4

// func rowQ5AVX2(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)
TEXT ·rowQ5AVX2(SB), NOSPLIT, $0-72
	ONES
	ROWQ5

// func rowQ4MinAVX2(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)
TEXT ·rowQ4MinAVX2(SB), NOSPLIT, $0-72
	ONES
	ROWQ4MIN

// func rowQ5MinAVX2(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)
TEXT ·rowQ5MinAVX2(SB), NOSPLIT, $0-72
	ONES
	ROWQ5MIN

// func rowQ4KAVX2(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)
TEXT ·rowQ4KAVX2(SB), $160-72
	ONES
	ROWQ4K

// func rowQ5KAVX2(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)
TEXT ·rowQ5KAVX2(SB), $160-72
	ONES
	ROWQ5K

// func rowQ6KAVX2(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)
TEXT ·rowQ6KAVX2(SB), $160-72
	ONES
	ROWQ6K

// func rowQ3KAVX2(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)
TEXT ·rowQ3KAVX2(SB), $160-72
	ONES
	ROWQ3K

// func rowQ2KAVX2(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)
TEXT ·rowQ2KAVX2(SB), $160-72
	ONES
	ROWQ2K

// func rowIQ4NLAVX2(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)
TEXT ·rowIQ4NLAVX2(SB), NOSPLIT, $0-72
	ONES
	VPXOR Y12, Y12, Y12
	ROWIQ4NL

// func rowIQ4XSAVX2(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)
TEXT ·rowIQ4XSAVX2(SB), $160-72
	ONES
	VPXOR Y12, Y12, Y12
	ROWIQ4XS

// func rowMXFP4AVX2(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)
TEXT ·rowMXFP4AVX2(SB), NOSPLIT, $0-72
	ONES
	ROWMXFP4

