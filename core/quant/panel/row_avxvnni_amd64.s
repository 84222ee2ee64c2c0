//go:build amd64 && !purego

#include "textflag.h"
#include "avxvnni_amd64.h"
#include "row256_amd64.h"

// Products of unsigned with signed bytes, four at a time in 32 bits. Signed
// weights have 128 added.

// quant.TableIQ4, 128 added.
DATA tableIQ4<>+0(SB)/8, $0x766a5d4f3f2d1801
DATA tableIQ4<>+8(SB)/8, $0xf1d9c5b5a6998d81
GLOBL tableIQ4<>(SB), RODATA|NOPTR, $16

#define ADD0 DPBUSD(9, 6, 2)
#define ADD1 DPBUSD(9, 6, 3)
#define ADD2 DPBUSD(10, 7, 4)
#define ADD3 DPBUSD(10, 7, 5)

#define SET0 \
	VPXOR Y2, Y2, Y2 \
	ADD0
#define SET1 \
	VPXOR Y3, Y3, Y3 \
	ADD1
#define SET2 \
	VPXOR Y4, Y4, Y4 \
	ADD2
#define SET3 \
	VPXOR Y5, Y5, Y5 \
	ADD3

#define ADDL0 ADD0
#define ADDH0 DPBUSD(10, 7, 3)
#define ADDL1 DPBUSD(9, 6, 4)
#define ADDH1 ADD3
#define SETL0 SET0
#define SETH0 \
	VPXOR Y3, Y3, Y3 \
	ADDH0
#define SETL1 \
	VPXOR Y4, Y4, Y4 \
	ADDL1
#define SETH1 SET3

#define SETSL0 SETL0
#define SETSH0 SETH0
#define SETSL1 SETL1
#define SETSH1 SETH1
#define ADDSL0 ADDL0
#define ADDSH0 ADDH0
#define ADDSL1 ADDL1
#define ADDSH1 ADDH1

#define FLIP \
	VPXOR Y13, Y6, Y6 \
	VPXOR Y13, Y7, Y7

#define QUARTER \
	VPSRAD $2, Y3, Y3 \
	VPSRAD $2, Y5, Y5

#define FIXS \
	VPBROADCASTD (R12), Y9  \
	VPADDD       Y9, Y2, Y2 \
	VPADDD       Y9, Y4, Y4

#define TABLE VBROADCASTI128 tableIQ4<>(SB), Y13

#define PARTS4 \
	VPADDD Y3, Y2, Y2 \
	VPADDD Y5, Y4, Y4
#define PARTS2 PARTS4

#define SUMS PARTS4
#define SUM8 PARTS4
#define SUM4 PARTS4

// func rowQ8AVXVNNI(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)
TEXT ·rowQ8AVXVNNI(SB), NOSPLIT, $0-72
	VMOVDQU sign<>(SB), Y13
	ROWQ8

// func rowQ4AVXVNNI(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)
TEXT ·rowQ4AVXVNNI(SB), NOSPLIT, $0-72
	ROWQ4

// func rowQ5AVXVNNI(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)
TEXT ·rowQ5AVXVNNI(SB), NOSPLIT, $0-72
	ROWQ5

// func rowQ4MinAVXVNNI(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)
TEXT ·rowQ4MinAVXVNNI(SB), NOSPLIT, $0-72
	ROWQ4MIN

// func rowQ5MinAVXVNNI(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)
TEXT ·rowQ5MinAVXVNNI(SB), NOSPLIT, $0-72
	ROWQ5MIN

// func rowQ4KAVXVNNI(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)
TEXT ·rowQ4KAVXVNNI(SB), $160-72
	ROWQ4K

// func rowQ5KAVXVNNI(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)
TEXT ·rowQ5KAVXVNNI(SB), $160-72
	ROWQ5K

// func rowQ6KAVXVNNI(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)
TEXT ·rowQ6KAVXVNNI(SB), $160-72
	ROWQ6K

// func rowQ3KAVXVNNI(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)
TEXT ·rowQ3KAVXVNNI(SB), $160-72
	ROWQ3K

// func rowQ2KAVXVNNI(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)
TEXT ·rowQ2KAVXVNNI(SB), $160-72
	ROWQ2K

// func rowIQ4NLAVXVNNI(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)
TEXT ·rowIQ4NLAVXVNNI(SB), NOSPLIT, $0-72
	ROWIQ4NL

// func rowIQ4XSAVXVNNI(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)
TEXT ·rowIQ4XSAVXVNNI(SB), $160-72
	ROWIQ4XS

// func rowMXFP4AVXVNNI(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)
TEXT ·rowMXFP4AVXVNNI(SB), NOSPLIT, $0-72
	ROWMXFP4

