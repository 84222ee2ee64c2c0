//go:build !purego

#include "textflag.h"

// Products of a panel of 16 rows of weights, as signed bytes, with pairs of tiles
// of 8 rows of activations by AMX. The panel's columns have the layout of TDPBSSD's
// second factor, a blocked batch (Batch) that of the first; the sums go through
// memory to be scaled by AVX-512, in the order of tile_amd64.s. Loads wait until
// tiles that they read are in the cache, so the sums of two groups are written
// to one half of the buffer before those in the other half are scaled.
//
// Go does not preempt a goroutine within an assembly function, so between
// LDTILECFG and TILERELEASE the thread runs no other Go code except signal
// handlers, around which the kernel saves and restores the tiles.
//
// Registers: DI y, AX its stride; SI weights, R8 their scales, BX their minima;
// R9 activations, R10 their scales, R11 their sums; R14 bytes between the scales
// of the two tiles; CX groups, R12 pairs; R15 the buffer; DX and R13 the
// strides 64 and 32. Z0 to Z15 are the results, one row of activations each.

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

SHAPES(shapes32, $0x0040002000400040, $0x0000000000400020, $0x0000081008101010)
SHAPES(shapes16, $0x0040001000400040, $0x0000000000400010, $0x0000041004101010)

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

// ONE writes the sums of a group to the buffer, TWO those of two, of which the
// second has its activations x and its weights w bytes on.
#define ONE \
	TILEZERO(0)         \
	TILELOAD_R9(0, 2)   \
	TILELOAD_SI(0, 3)   \
	TDPBSSD_3_2_0       \
	TILESTORE_R15(0, 0)

#define TWO(x, w) \
	TILEZERO(0)         \
	TILELOAD_R9(0, 2)   \
	TILELOAD_SI(0, 3)   \
	TDPBSSD_3_2_0       \
	TILEZERO(1)         \
	TILELOAD_R9(x, 4)   \
	TILELOAD_SI(w, 5)   \
	TDPBSSD_5_4_1       \
	TILESTORE_R15(0, 0) \
	TILESTORE_R15(1, 1024)

// TURN goes to the other half of the buffer.
#define TURN XORQ $2048, R15

// BEGIN sets up the fixed registers. R11 is set afterward.
#define BEGIN(shapes, panel_x, panel_d) \
	LEAQ 4095(SP), R15      \
	ANDQ $~4095, R15        \
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
	VPXORD Z0, Z0, Z0    \
	VPXORD Z1, Z1, Z1    \
	VPXORD Z2, Z2, Z2    \
	VPXORD Z3, Z3, Z3    \
	VPXORD Z4, Z4, Z4    \
	VPXORD Z5, Z5, Z5    \
	VPXORD Z6, Z6, Z6    \
	VPXORD Z7, Z7, Z7    \
	VPXORD Z8, Z8, Z8    \
	VPXORD Z9, Z9, Z9    \
	VPXORD Z10, Z10, Z10 \
	VPXORD Z11, Z11, Z11 \
	VPXORD Z12, Z12, Z12 \
	VPXORD Z13, Z13, Z13 \
	VPXORD Z14, Z14, Z14 \
	VPXORD Z15, Z15, Z15

#define SCALE(t, sums, d, acc, lower, tmp) \
	VCVTDQ2PS   (64*t+sums)(R15), tmp    \
	VMULPS.BCST d, Z16, lower            \
	VFMADD231PS tmp, lower, acc

// SCALES adds the sums of a group by the scales at R8, of the activations d
// bytes on.
#define SCALES(sums, d) \
	VMOVUPS (R8), Z16 \
	SCALE(0, sums, (d+0)(R10), Z0, Z17, Z18)            \
	SCALE(1, sums, (d+4)(R10), Z1, Z19, Z20)            \
	SCALE(2, sums, (d+8)(R10), Z2, Z21, Z22)            \
	SCALE(3, sums, (d+12)(R10), Z3, Z23, Z24)           \
	SCALE(4, sums, (d+16)(R10), Z4, Z17, Z18)           \
	SCALE(5, sums, (d+20)(R10), Z5, Z19, Z20)           \
	SCALE(6, sums, (d+24)(R10), Z6, Z21, Z22)           \
	SCALE(7, sums, (d+28)(R10), Z7, Z23, Z24)           \
	SCALE(8, sums, (d+0)(R10)(R14*1), Z8, Z17, Z18)     \
	SCALE(9, sums, (d+4)(R10)(R14*1), Z9, Z19, Z20)     \
	SCALE(10, sums, (d+8)(R10)(R14*1), Z10, Z21, Z22)   \
	SCALE(11, sums, (d+12)(R10)(R14*1), Z11, Z23, Z24)  \
	SCALE(12, sums, (d+16)(R10)(R14*1), Z12, Z17, Z18)  \
	SCALE(13, sums, (d+20)(R10)(R14*1), Z13, Z19, Z20)  \
	SCALE(14, sums, (d+24)(R10)(R14*1), Z14, Z21, Z22)  \
	SCALE(15, sums, (d+28)(R10)(R14*1), Z15, Z23, Z24)  \
	ADDQ $64, R8

// MINIMA subtracts the minima at BX times the sums of activations.
#define MINIMA \
	VMOVUPS (BX), Z16                            \
	VFNMADD231PS.BCST (R11), Z16, Z0             \
	VFNMADD231PS.BCST 4(R11), Z16, Z1            \
	VFNMADD231PS.BCST 8(R11), Z16, Z2            \
	VFNMADD231PS.BCST 12(R11), Z16, Z3           \
	VFNMADD231PS.BCST 16(R11), Z16, Z4           \
	VFNMADD231PS.BCST 20(R11), Z16, Z5           \
	VFNMADD231PS.BCST 24(R11), Z16, Z6           \
	VFNMADD231PS.BCST 28(R11), Z16, Z7           \
	VFNMADD231PS.BCST (R11)(R14*1), Z16, Z8      \
	VFNMADD231PS.BCST 4(R11)(R14*1), Z16, Z9     \
	VFNMADD231PS.BCST 8(R11)(R14*1), Z16, Z10    \
	VFNMADD231PS.BCST 12(R11)(R14*1), Z16, Z11   \
	VFNMADD231PS.BCST 16(R11)(R14*1), Z16, Z12   \
	VFNMADD231PS.BCST 20(R11)(R14*1), Z16, Z13   \
	VFNMADD231PS.BCST 24(R11)(R14*1), Z16, Z14   \
	VFNMADD231PS.BCST 28(R11)(R14*1), Z16, Z15   \
	ADDQ $64, BX                                 \
	ADDQ $32, R11

#define NOMINIMA

#define STORE(reg) \
	VMOVUPS reg, (DI) \
	ADDQ    AX, DI

#define STORES \
	STORE(Z0)  \
	STORE(Z1)  \
	STORE(Z2)  \
	STORE(Z3)  \
	STORE(Z4)  \
	STORE(Z5)  \
	STORE(Z6)  \
	STORE(Z7)  \
	STORE(Z8)  \
	STORE(Z9)  \
	STORE(Z10) \
	STORE(Z11) \
	STORE(Z12) \
	STORE(Z13) \
	STORE(Z14) \
	STORE(Z15)

#define END \
	TILERELEASE \
	VZEROUPPER  \
	RET

// LOOP32 multiplies with a pair of tiles.
#define LOOP32(minima) \
	CLEAR            \
	SUBQ $2, CX      \
	JLT  last        \
	TWO(512, 512)    \
	ADDQ $1024, SI   \
	ADDQ $1024, R9   \
	JMP  enter       \
two:                     \
	TURN             \
	TWO(512, 512)    \
	ADDQ $1024, SI   \
	ADDQ $1024, R9   \
	TURN             \
	SCALES(0, 0)     \
	minima           \
	SCALES(1024, 32) \
	minima           \
	ADDQ $64, R10    \
	TURN             \
enter:                   \
	SUBQ $2, CX      \
	JGE  two         \
	SCALES(0, 0)     \
	minima           \
	SCALES(1024, 32) \
	minima           \
	ADDQ $64, R10    \
last:                    \
	ADDQ $2, CX      \
	JZ   done        \
	ONE              \
	ADDQ $512, R9    \
	SCALES(0, 0)     \
	minima           \
	ADDQ $32, R10    \
done:                    \
	STORES           \
	ADDQ R14, R10

// func tilesAMX(y *float32, ldy int, w *int8, scale *float32, x *int8, d *float32, groups, pairs int)
TEXT ·tilesAMX(SB), $8192-64
	BEGIN(shapes32, x+32(FP), d+40(FP))
	MOVQ groups+48(FP), R14
	SHLQ $5, R14
	MOVQ pairs+56(FP), R12

tile:
	MOVQ w+16(FP), SI
	MOVQ scale+24(FP), R8
	MOVQ groups+48(FP), CX
	LOOP32(NOMINIMA)
	DECQ R12
	JNZ  tile
	END

// func tilesMinAMX(y *float32, ldy int, w *int8, scale, minimum *float32, x *int8, d, sum *float32, groups, pairs int)
TEXT ·tilesMinAMX(SB), $8192-80
	BEGIN(shapes32, x+40(FP), d+48(FP))
	MOVQ sum+56(FP), R11
	MOVQ groups+64(FP), R14
	SHLQ $5, R14
	MOVQ pairs+72(FP), R12

tile:
	MOVQ w+16(FP), SI
	MOVQ scale+24(FP), R8
	MOVQ minimum+32(FP), BX
	MOVQ groups+64(FP), CX
	LOOP32(MINIMA)
	ADDQ R14, R11
	DECQ R12
	JNZ  tile
	END

// func tiles16AMX(y *float32, ldy int, w *int8, scale *float32, x *int8, d *float32, groups, pairs int)
//
// Two scales for each group of 32, without minima.
TEXT ·tiles16AMX(SB), $8192-64
	BEGIN(shapes16, x+32(FP), d+40(FP))
	MOVQ groups+48(FP), R14
	SHLQ $5, R14
	MOVQ pairs+56(FP), R12

tile:
	MOVQ w+16(FP), SI
	MOVQ scale+24(FP), R8
	MOVQ groups+48(FP), CX
	CLEAR
	TWO(16, 256)
	ADDQ $512, SI
	ADDQ $512, R9
	JMP  enter

loop:
	TURN
	TWO(16, 256)
	ADDQ $512, SI
	ADDQ $512, R9
	TURN
	SCALES(0, 0)
	SCALES(1024, 0)
	ADDQ $32, R10
	TURN

enter:
	DECQ CX
	JNZ  loop
	SCALES(0, 0)
	SCALES(1024, 0)
	ADDQ $32, R10
	STORES
	ADDQ R14, R10
	DECQ R12
	JNZ  tile
	END
