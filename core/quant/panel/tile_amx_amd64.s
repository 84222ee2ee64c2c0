//go:build !purego

#include "textflag.h"

// Products of a panel of 16 rows of weights, as signed bytes, with tiles of 8
// rows of activations by AMX. The panel's columns have the layout of TDPBSSD's second
// factor, a blocked batch (Batch) that of the first; the sums go through
// memory to be scaled by AVX-512, in the order of tile_amd64.s.
//
// Go does not preempt a goroutine within an assembly function, so between
// LDTILECFG and TILERELEASE the thread runs no other Go code except signal
// handlers, around which the kernel saves and restores the tiles.
//
// Registers: DI y, AX its stride; SI weights, R8 their scales, BX their minima;
// R9 activations, R10 their scales, R11 their sums; CX groups, R12 tiles; R15 the
// sums of two groups; DX and R13 the strides 64 and 32. Z0 to Z7 are the results,
// one row of activations each.

// The shapes of tiles: 0 and 1 are sums, 2 and 4 activations, 3 and 5 weights.
// After the palette, bytes in a row from byte 16 on, rows from byte 48 on.
#define SHAPES(name, columns03, columns47, rows) \
	DATA name<>+0(SB)/8, $1         \
	DATA name<>+8(SB)/8, $0         \
	DATA name<>+16(SB)/8, columns03 \
	DATA name<>+24(SB)/8, columns47 \
	DATA name<>+32(SB)/8, $0        \
	DATA name<>+40(SB)/8, $0        \
	DATA name<>+48(SB)/8, rows      \
	DATA name<>+56(SB)/8, $0        \
	GLOBL name<>(SB), RODATA|NOPTR, $64

SHAPES(shapes32, $0x0040002000400040, $0x0000000000400020, $0x0000080808080808)
SHAPES(shapes16, $0x0040001000400040, $0x0000000000400010, $0x0000040804080808)

// The instructions that Go's assembler lacks.
#define LDTILECFG_R11   BYTE $0xc4; BYTE $0xc2; BYTE $0x78; BYTE $0x49; BYTE $0x03
#define TILERELEASE     BYTE $0xc4; BYTE $0xe2; BYTE $0x78; BYTE $0x49; BYTE $0xc0
#define TILEZERO(t)     BYTE $0xc4; BYTE $0xe2; BYTE $0x7b; BYTE $0x49; BYTE $(0xc0|t<<3)
// Tiles 2 and 4 from at(R9)(R13*1), 3 and 5 from at(SI)(DX*1).
#define TILELOAD_R9(at, t) BYTE $0xc4; BYTE $0x82; BYTE $0x7b; BYTE $0x4b; BYTE $(0x84|t<<3); BYTE $0x29; LONG $at
#define TILELOAD_SI(at, t) BYTE $0xc4; BYTE $0xe2; BYTE $0x7b; BYTE $0x4b; BYTE $(0x84|t<<3); BYTE $0x16; LONG $at
// Tiles 0 and 1 to at(R15)(DX*1).
#define TILESTORE_R15(t, at) BYTE $0xc4; BYTE $0xc2; BYTE $0x7a; BYTE $0x4b; BYTE $(0x84|t<<3); BYTE $0x17; LONG $at
#define TDPBSSD_3_2_0   BYTE $0xc4; BYTE $0xe2; BYTE $0x63; BYTE $0x5e; BYTE $0xc2
#define TDPBSSD_5_4_1   BYTE $0xc4; BYTE $0xe2; BYTE $0x53; BYTE $0x5e; BYTE $0xcc

#define ONE(x, w) \
	TILEZERO(0)        \
	TILELOAD_R9(x, 2)  \
	TILELOAD_SI(w, 3)  \
	TDPBSSD_3_2_0

#define TWO(x, w) \
	ONE(0, 0)          \
	TILEZERO(1)        \
	TILELOAD_R9(x, 4)  \
	TILELOAD_SI(w, 5)  \
	TDPBSSD_5_4_1      \
	TILESTORE_R15(0, 0) \
	TILESTORE_R15(1, 512)

// BEGIN sets up the fixed registers, TILE those of each tile of activations.
#define BEGIN(shapes, panel_x, panel_d) \
	LEAQ 63(SP), R15        \
	ANDQ $~63, R15          \
	LEAQ shapes<>(SB), R11  \
	LDTILECFG_R11           \
	MOVQ y+0(FP), DI        \
	MOVQ ldy+8(FP), AX      \
	SHLQ $2, AX             \
	MOVQ panel_x, R9        \
	MOVQ panel_d, R10       \
	MOVQ $64, DX            \
	MOVQ $32, R13

#define CLEAR \
	VPXORD Z0, Z0, Z0 \
	VPXORD Z1, Z1, Z1 \
	VPXORD Z2, Z2, Z2 \
	VPXORD Z3, Z3, Z3 \
	VPXORD Z4, Z4, Z4 \
	VPXORD Z5, Z5, Z5 \
	VPXORD Z6, Z6, Z6 \
	VPXORD Z7, Z7, Z7

#define SCALE(t, sums, d, acc) \
	VCVTDQ2PS   (64*t+sums)(R15), Z17    \
	VMULPS.BCST (4*t+d)(R10), Z16, Z18   \
	VFMADD231PS Z17, Z18, acc

// SCALES adds the sums by the scales at R8, of the activations d bytes on.
#define SCALES(sums, d) \
	VMOVUPS (R8), Z16    \
	SCALE(0, sums, d, Z0) \
	SCALE(1, sums, d, Z1) \
	SCALE(2, sums, d, Z2) \
	SCALE(3, sums, d, Z3) \
	SCALE(4, sums, d, Z4) \
	SCALE(5, sums, d, Z5) \
	SCALE(6, sums, d, Z6) \
	SCALE(7, sums, d, Z7) \
	ADDQ $64, R8

// MINIMA subtracts the minima at BX times the sums of activations.
#define MINIMA \
	VMOVUPS (BX), Z16                  \
	VFNMADD231PS.BCST (R11), Z16, Z0   \
	VFNMADD231PS.BCST 4(R11), Z16, Z1  \
	VFNMADD231PS.BCST 8(R11), Z16, Z2  \
	VFNMADD231PS.BCST 12(R11), Z16, Z3 \
	VFNMADD231PS.BCST 16(R11), Z16, Z4 \
	VFNMADD231PS.BCST 20(R11), Z16, Z5 \
	VFNMADD231PS.BCST 24(R11), Z16, Z6 \
	VFNMADD231PS.BCST 28(R11), Z16, Z7 \
	ADDQ $64, BX                       \
	ADDQ $32, R11

#define STORE(reg) \
	VMOVUPS reg, (DI) \
	ADDQ    AX, DI

#define STORES \
	STORE(Z0) \
	STORE(Z1) \
	STORE(Z2) \
	STORE(Z3) \
	STORE(Z4) \
	STORE(Z5) \
	STORE(Z6) \
	STORE(Z7)

#define END \
	TILERELEASE \
	VZEROUPPER  \
	RET

// func tilesAMX(y *float32, ldy int, w *int8, scale, minimum *float32, x *int8, d, sum *float32, groups, tiles int)
TEXT ·tilesAMX(SB), $1088-80
	BEGIN(shapes32, x+40(FP), d+48(FP))
	MOVQ sum+56(FP), R11
	MOVQ tiles+72(FP), R12

tile:
	MOVQ w+16(FP), SI
	MOVQ scale+24(FP), R8
	MOVQ minimum+32(FP), BX
	MOVQ groups+64(FP), CX
	CLEAR
	SUBQ $2, CX
	JLT  last

pair:
	TWO(256, 512)
	SCALES(0, 0)
	TESTQ BX, BX
	JZ    second
	MINIMA

second:
	SCALES(512, 32)
	TESTQ BX, BX
	JZ    next
	MINIMA

next:
	ADDQ $1024, SI
	ADDQ $512, R9
	ADDQ $64, R10
	SUBQ $2, CX
	JGE  pair

last:
	ADDQ  $2, CX
	JZ    done
	ONE(0, 0)
	TILESTORE_R15(0, 0)
	SCALES(0, 0)
	ADDQ  $256, R9
	ADDQ  $32, R10
	TESTQ BX, BX
	JZ    done
	MINIMA

done:
	STORES
	DECQ R12
	JNZ  tile
	END

// func tiles16AMX(y *float32, ldy int, w *int8, scale *float32, x *int8, d *float32, groups, tiles int)
//
// Two scales for each group of 32, without minima.
TEXT ·tiles16AMX(SB), $1088-64
	BEGIN(shapes16, x+32(FP), d+40(FP))
	MOVQ tiles+56(FP), R12

tile:
	MOVQ w+16(FP), SI
	MOVQ scale+24(FP), R8
	MOVQ groups+48(FP), CX
	CLEAR

loop:
	TWO(16, 256)
	SCALES(0, 0)
	SCALES(512, 0)
	ADDQ $512, SI
	ADDQ $256, R9
	ADDQ $32, R10
	DECQ CX
	JNZ  loop
	STORES
	DECQ R12
	JNZ  tile
	END
