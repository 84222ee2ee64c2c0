// Products of one row of activations with panels of 16 rows of weights in
// registers of 256 bits. Of each group of 32 columns rows 0 to 7 are done and then
// rows 8 to 15, column by column where there are registers for the sums of both:
// then each activation is loaded once. A file that includes this one defines how
// bytes are multiplied:
//
//	SETL0, SETH0, ADDL0, ADDH0   Y2 and Y3 become, or grow by, the sums of pairs
//	                           of products of unsigned bytes with signed ones: of
//	                           Y6 with Y9, of Y7 with Y10
//	SETL1, SETH1, ADDL1, ADDH1   the same in Y4 and Y5
//	SETSL0 …, ADDSL0 …         the same for signed weights
//	SET0 … SET3, ADD0 … ADD3   Y2 to Y5 become, or grow by, 0 and 1 the products
//	                           of Y6 with Y9, 2 and 3 those of Y7 with Y10
//	FLIP                       converts 8-bit weights for SETS and ADDS
//	SUM8, SUM4, SUMS           Y2 is Y2 and Y3 of 32 bits, Y4 is Y4 and Y5: sums of
//	                           four products each of unsigned weights of 4 bits
//	                           and fewer, of 5, of signed
//	PARTS4, PARTS2             the same of two products each of weights of 3 bits
//	                           and fewer, and of 6
//	QUARTER                    a quarter of the sums Y3 and Y5
//	FIXS                       subtracts from Y2 and Y4 the offset of FLIP or TABLE
//	TABLE                      the table of IQ4 for SETS and ADDS
//
// Registers: DI y; SI integers; R8 scales; R9 activations; R10 their scales;
// R11 their sums; R12 fix; R13 a block's d and dmin as float32, 16 rows each; CX
// groups of 32 (blocks of 256 for K-quants); DX groups of a block; BX panels. Y0 and Y1 are the
// results, Y15 the mask of the lower bits, Y13 that of the upper ones or a
// table, Y14 is for the file that includes this one.

#define CONST32(name, value) \
	DATA name<>+0(SB)/8, value  \
	DATA name<>+8(SB)/8, value  \
	DATA name<>+16(SB)/8, value \
	DATA name<>+24(SB)/8, value \
	GLOBL name<>(SB), RODATA|NOPTR, $32

CONST32(bits03, $0x0f0f0f0f0f0f0f0f)
CONST32(bits01, $0x0303030303030303)
CONST32(bit2, $0x0404040404040404)
CONST32(bit4, $0x1010101010101010)
CONST32(bits45, $0x3030303030303030)
CONST32(bits23, $0x0c0c0c0c0c0c0c0c)
CONST32(parts128, $0x3c0000003c000000)
CONST32(words03, $0x0000000f0000000f)

// quant.TableMXFP4, 16 added.
DATA tableMXFP4<>+0(SB)/8, $0x1c18161413121110
DATA tableMXFP4<>+8(SB)/8, $0x04080a0c0d0e0f10
GLOBL tableMXFP4<>(SB), RODATA|NOPTR, $16

#define ARGS \
	MOVQ y+0(FP), DI       \
	MOVQ q+8(FP), SI       \
	MOVQ s+16(FP), R8      \
	MOVQ panels+64(FP), BX

// FRAME is the place of a block's d and dmin.
#define FRAME \
	LEAQ 31(SP), R13 \
	ANDQ $~31, R13

// PANEL begins a panel: its integers and scales follow those of the last one.
#define PANEL \
	MOVQ   x+24(FP), R9    \
	MOVQ   d+32(FP), R10   \
	MOVQ   sum+40(FP), R11 \
	MOVQ   fix+48(FP), R12 \
	MOVQ   n+56(FP), CX    \
	VXORPS Y0, Y0, Y0      \
	VXORPS Y1, Y1, Y1

// DONE ends a panel, and the function with the last one.
#define DONE \
	VMOVUPS Y0, (DI)   \
	VMOVUPS Y1, 32(DI) \
	ADDQ    $64, DI    \
	DECQ    BX         \
	JNZ     panel      \
	VZEROUPPER         \
	RET

// PREFETCH prefetches a line that will be read some groups later: the next panel
// begins at the end of this one.
#define AHEAD 4096
#define PREFETCH(off) PREFETCHT0 (AHEAD+off)(SI)
#define PREFETCH2(off) \
	PREFETCH(off)    \
	PREFETCH(off+64)
#define PREFETCH4(off) \
	PREFETCH2(off)     \
	PREFETCH2(off+128)

// COLUMNS loads the activations of units i and i+4.
#define COLUMNS(i) \
	VPBROADCASTD (4*i)(R9), Y9     \
	VPBROADCASTD (4*i+16)(R9), Y10

// NIBBLES loads units i and i+4 of 4 bits.
#define NIBBLES(i, h) \
	VMOVDQU (64*i+h)(SI), Y6 \
	VPSRLD  $4, Y6, Y7       \
	VPAND   Y15, Y6, Y6      \
	VPAND   Y15, Y7, Y7

// UPPER adds the result of INTO to the bits of Y13.
#define UPPER(INTO, reg) \
	INTO              \
	VPAND Y13, Y8, Y8 \
	VPOR  Y8, reg, reg

#define LEFT(n, plane) VPSLLD $n, plane, Y8
#define RIGHT(n, plane) VPSRLD $n, plane, Y8
#define STAY(plane) VMOVDQA plane, Y8

// ALL processes four units with the weights from UNIT, for rows from h on.
#define ALL(UNIT) \
	COLUMNS(0) \
	UNIT(0, 0) \
	SETL0      \
	SETH0      \
	UNIT(0, 32) \
	SETL1      \
	SETH1      \
	MORE(1, UNIT) \
	MORE(2, UNIT) \
	MORE(3, UNIT)
#define MORE(i, UNIT) \
	COLUMNS(i) \
	UNIT(i, 0) \
	ADDL0      \
	ADDH0      \
	UNIT(i, 32) \
	ADDL1      \
	ADDH1

// ALLS is ALL for signed weights.
#define ALLS(UNIT) \
	COLUMNS(0) \
	UNIT(0, 0) \
	SETSL0     \
	SETSH0     \
	UNIT(0, 32) \
	SETSL1     \
	SETSH1     \
	MORES(1, UNIT) \
	MORES(2, UNIT) \
	MORES(3, UNIT)
#define MORES(i, UNIT) \
	COLUMNS(i) \
	UNIT(i, 0) \
	ADDSL0     \
	ADDSH0     \
	UNIT(i, 32) \
	ADDSL1     \
	ADDSH1

#define DOT4 ALL(NIBBLES)

// Bit i of the planes Y12, of the lower rows, and Y11 is bit 4 of unit i.
#define FIFTH(i, h, LOW, HIGH) \
	NIBBLES(i, h)   \
	UPPER(LOW, Y6)  \
	UPPER(HIGH, Y7)

#define UNIT5(i, LOW0, HIGH0, LOW1, HIGH1, A, B, C, D) \
	COLUMNS(i)                \
	FIFTH(i, 0, LOW0, HIGH0)  \
	A                         \
	B                         \
	FIFTH(i, 32, LOW1, HIGH1) \
	C                         \
	D

#define DOT5 \
	VMOVDQU 256(SI), Y12 \
	VMOVDQU 288(SI), Y11 \
	UNIT5(0, LEFT(4, Y12), STAY(Y12), LEFT(4, Y11), STAY(Y11), SETL0, SETH0, SETL1, SETH1)           \
	UNIT5(1, LEFT(3, Y12), RIGHT(1, Y12), LEFT(3, Y11), RIGHT(1, Y11), ADDL0, ADDH0, ADDL1, ADDH1)   \
	UNIT5(2, LEFT(2, Y12), RIGHT(2, Y12), LEFT(2, Y11), RIGHT(2, Y11), ADDL0, ADDH0, ADDL1, ADDH1)   \
	UNIT5(3, LEFT(1, Y12), RIGHT(3, Y12), LEFT(1, Y11), RIGHT(3, Y11), ADDL0, ADDH0, ADDL1, ADDH1)

#define UNIT6(i, h, LOW, HIGH, A, B) \
	COLUMNS(i)             \
	FIFTH(i, h, LOW, HIGH) \
	A                      \
	B

// Y12 holds bits 4 and 5 of units 0 to 3, Y11 those of 4 to 7.
#define DOT6(h) \
	VMOVDQU (256+h)(SI), Y12                                \
	VMOVDQU (320+h)(SI), Y11                                \
	UNIT6(0, h, LEFT(4, Y12), LEFT(4, Y11), SET0, SET2)     \
	UNIT6(1, h, LEFT(2, Y12), LEFT(2, Y11), SET1, SET3)     \
	UNIT6(2, h, STAY(Y12), STAY(Y11), ADD0, ADD2)           \
	UNIT6(3, h, RIGHT(2, Y12), RIGHT(2, Y11), ADD1, ADD3)

// Y11 holds two bits of units 0 to 3, Y14 those of 4 to 7. Odd units
// are used without shifting, four times as large, and summed separately, in Y3 and
// Y5; the upper halves are moved to the lower ones once.
#define PAIRS(mask) \
	VPAND mask, Y11, Y6 \
	VPAND mask, Y14, Y7
#define EVEN PAIRS(Y15)
#define ODD PAIRS(bits23<>(SB))
#define UPPERPAIRS \
	VPSRLW $4, Y11, Y11 \
	VPSRLW $4, Y14, Y14

#define UNIT2(i, BITS, A, B) \
	BITS       \
	COLUMNS(i) \
	A          \
	B

#define DOT2(h) \
	VMOVDQU (h)(SI), Y11       \
	VMOVDQU (64+h)(SI), Y14    \
	UNIT2(0, EVEN, SET0, SET2) \
	UNIT2(1, ODD, SET1, SET3)  \
	UPPERPAIRS                 \
	UNIT2(2, EVEN, ADD0, ADD2) \
	UNIT2(3, ODD, ADD1, ADD3)  \
	QUARTER

// Bit i of the plane Y12 is bit 2 of unit i.
#define THIRD(INTO, mask, reg) \
	INTO             \
	VPAND mask, Y8, Y8 \
	VPOR  Y8, reg, reg

#define UNIT3(i, BITS, LOW, HIGH, mask, A, B) \
	BITS                  \
	COLUMNS(i)            \
	THIRD(LOW, mask, Y6)  \
	THIRD(HIGH, mask, Y7) \
	A                     \
	B

#define DOT3(h) \
	VMOVDQU (h)(SI), Y11                                                         \
	VMOVDQU (64+h)(SI), Y14                                                      \
	VMOVDQU (128+h)(SI), Y12                                                     \
	UNIT3(0, EVEN, LEFT(2, Y12), RIGHT(2, Y12), Y13, SET0, SET2)                 \
	UNIT3(1, ODD, LEFT(3, Y12), RIGHT(1, Y12), bit4<>(SB), SET1, SET3)           \
	UPPERPAIRS                                                                   \
	UNIT3(2, EVEN, STAY(Y12), RIGHT(4, Y12), Y13, ADD0, ADD2)                    \
	UNIT3(3, ODD, LEFT(1, Y12), RIGHT(3, Y12), bit4<>(SB), ADD1, ADD3)           \
	QUARTER

// Four bits index the table Y13.
#define CHOSEN(i, h) \
	NIBBLES(i, h)        \
	VPSHUFB Y6, Y13, Y6  \
	VPSHUFB Y7, Y13, Y7

#define DOTTABLE ALL(CHOSEN)
#define DOTTABLES ALLS(CHOSEN)

#define BYTES(i, h) \
	VMOVDQU (64*i+h)(SI), Y6     \
	VMOVDQU (64*i+256+h)(SI), Y7 \
	FLIP

#define DOT8 ALLS(BYTES)

// FIX subtracts the excess of the offset 128>>n of unsigned weights.
#define FIX(n) \
	VPBROADCASTD (R12), Y9   \
	VPSRAD       $n, Y9, Y9  \
	VPADDD       Y9, Y2, Y2  \
	VPADDD       Y9, Y4, Y4
#define FIXAT(at, n, ints) \
	VPBROADCASTD at(R12), Y9     \
	VPSRAD       $n, Y9, Y9      \
	VPADDD       Y9, ints, ints

// SCALE adds float(ints) · (scale · d) to a result.
#define SCALE(ints, scale, result) \
	VCVTDQ2PS    ints, ints           \
	VBROADCASTSS (R10), Y9            \
	VMULPS       Y9, scale, scale     \
	VFMADD231PS  ints, scale, result

// SCALES applies SCALE to Y2, Y6 and Y0, and to Y4, Y7 and Y1.
#define SCALES \
	VCVTDQ2PS    Y2, Y2      \
	VCVTDQ2PS    Y4, Y4      \
	VBROADCASTSS (R10), Y9   \
	VMULPS       Y9, Y6, Y6  \
	VMULPS       Y9, Y7, Y7  \
	VFMADD231PS  Y2, Y6, Y0  \
	VFMADD231PS  Y4, Y7, Y1

// HALVES scales by numbers of 16 bits.
#define HALVES \
	VCVTPH2PS (R8), Y6   \
	VCVTPH2PS 16(R8), Y7 \
	SCALES

// LEASTS adds the sum of the activations times the numbers after the scales.
#define LEASTS \
	VCVTPH2PS    32(R8), Y6  \
	VCVTPH2PS    48(R8), Y7  \
	VBROADCASTSS (R11), Y9   \
	VFMADD231PS  Y9, Y6, Y0  \
	VFMADD231PS  Y9, Y7, Y1

// NEXT advances to the next group.
#define NEXT(ints, scales) \
	ADDQ $ints, SI   \
	ADDQ $scales, R8 \
	ADDQ $32, R9     \
	ADDQ $4, R10     \
	ADDQ $4, R11     \
	ADDQ $4, R12     \
	DECQ CX          \
	JNZ  loop

// BLOCKD begins a block of a K-quant that has d, BLOCKDMIN one with dmin as well;
// the groups' scales follow. NEXTK advances to the next group, whose fixes take
// the given number of bytes.
#define TOFLOATS(from, to) \
	VCVTPH2PS from(R8), Y6 \
	VMOVUPS   Y6, to(R13)
#define BLOCKD \
	TOFLOATS(0, 0)   \
	TOFLOATS(16, 32) \
	ADDQ $32, R8     \
	MOVQ $8, DX
#define BLOCKDMIN \
	TOFLOATS(0, 0)   \
	TOFLOATS(16, 32) \
	TOFLOATS(32, 64) \
	TOFLOATS(48, 96) \
	ADDQ $64, R8     \
	MOVQ $8, DX

#define NEXTK(ints, scales, fixes) \
	ADDQ $ints, SI   \
	ADDQ $scales, R8 \
	ADDQ $32, R9     \
	ADDQ $4, R10     \
	ADDQ $4, R11     \
	ADDQ $fixes, R12 \
	DECQ DX          \
	JNZ  loop        \
	DECQ CX          \
	JNZ  block

// KSCALES scales by d·s and subtracts dmin·m: 16 rows' scales, then their minima.
#define KSCALES \
	VPMOVZXBD    (R8), Y6         \
	VPMOVZXBD    8(R8), Y7        \
	VCVTDQ2PS    Y6, Y6           \
	VCVTDQ2PS    Y7, Y7           \
	VMULPS       (R13), Y6, Y6    \
	VMULPS       32(R13), Y7, Y7  \
	SCALES                        \
	VPMOVZXBD    16(R8), Y6       \
	VPMOVZXBD    24(R8), Y7       \
	VCVTDQ2PS    Y6, Y6           \
	VCVTDQ2PS    Y7, Y7           \
	VMULPS       64(R13), Y6, Y6  \
	VMULPS       96(R13), Y7, Y7  \
	VBROADCASTSS (R11), Y9        \
	VFNMADD231PS Y9, Y6, Y0       \
	VFNMADD231PS Y9, Y7, Y1

// SIGNEDS scales by d·s with signed s.
#define SIGNEDS \
	VPMOVSXBD (R8), Y6         \
	VPMOVSXBD 8(R8), Y7        \
	VCVTDQ2PS Y6, Y6           \
	VCVTDQ2PS Y7, Y7           \
	VMULPS    (R13), Y6, Y6    \
	VMULPS    32(R13), Y7, Y7  \
	SCALES

// SIGNED scales by d·s with signed s.
#define SIGNED(at, row, ints, result) \
	VPMOVSXBD at(R8), Y11       \
	VCVTDQ2PS Y11, Y11          \
	VMULPS    (4*row)(R13), Y11, Y11 \
	SCALE(ints, Y11, result)

// K2 scales one of two 16 columns by d·(s & 15), and adds -(dmin·(s >> 4)) times
// the sum of the activations to least: fix is 128 times that, dmin has been divided
// by as much.
#define K2(at, row, ints, fix, result, least) \
	VPMOVZXBD    at(R8), Y6             \
	VPSRLD       $4, Y6, Y7             \
	VPAND        words03<>(SB), Y6, Y6  \
	VCVTDQ2PS    Y6, Y6                 \
	VCVTDQ2PS    Y7, Y7                 \
	VMULPS       (4*row)(R13), Y6, Y6   \
	VMULPS       (64+4*row)(R13), Y7, Y7 \
	SCALE(ints, Y6, result)             \
	VMULPS       Y9, Y7, Y7             \
	VPBROADCASTD fix(R12), Y8           \
	VCVTDQ2PS    Y8, Y8                 \
	VFMADD231PS  Y8, Y7, least

// The bodies of the kernels.

#define ROWQ8 \
	ARGS           \
panel:             \
	PANEL          \
loop:              \
	PREFETCH4(0)              \
	PREFETCH4(256)            \
	DOT8                      \
	SUMS                      \
	FIXS                      \
	HALVES                    \
	NEXT(512, 32)  \
	DONE

#define ROWQ4 \
	ARGS                      \
	VMOVDQU bits03<>(SB), Y15 \
panel:                        \
	PANEL                     \
loop:                         \
	PREFETCH4(0)              \
	DOT4                      \
	SUM8                      \
	FIX(4)                    \
	HALVES                    \
	NEXT(256, 32)             \
	DONE

#define ROWQ4MIN \
	ARGS                      \
	VMOVDQU bits03<>(SB), Y15 \
panel:                        \
	PANEL                     \
loop:                         \
	PREFETCH4(0)              \
	DOT4                      \
	SUM8                      \
	HALVES                    \
	LEASTS                    \
	NEXT(256, 64)             \
	DONE

#define ROWQ5 \
	ARGS                      \
	VMOVDQU bits03<>(SB), Y15 \
	VMOVDQU bit4<>(SB), Y13   \
panel:                        \
	PANEL                     \
loop:                         \
	PREFETCH4(0)              \
	PREFETCH(256)             \
	DOT5                      \
	SUM4                      \
	FIX(3)                    \
	HALVES                    \
	NEXT(320, 32)             \
	DONE

#define ROWQ5MIN \
	ARGS                      \
	VMOVDQU bits03<>(SB), Y15 \
	VMOVDQU bit4<>(SB), Y13   \
panel:                        \
	PANEL                     \
loop:                         \
	PREFETCH4(0)              \
	PREFETCH(256)             \
	DOT5                      \
	SUM4                      \
	HALVES                    \
	LEASTS                    \
	NEXT(320, 64)             \
	DONE

#define ROWQ4K \
	FRAME                     \
	ARGS                      \
	VMOVDQU bits03<>(SB), Y15 \
panel:                        \
	PANEL                     \
block:                        \
	BLOCKDMIN                 \
loop:                         \
	PREFETCH4(0)              \
	DOT4                      \
	SUM8                      \
	KSCALES                   \
	NEXTK(256, 32, 4)         \
	DONE

#define ROWQ5K \
	FRAME                     \
	ARGS                      \
	VMOVDQU bits03<>(SB), Y15 \
	VMOVDQU bit4<>(SB), Y13   \
panel:                        \
	PANEL                     \
block:                        \
	BLOCKDMIN                 \
loop:                         \
	PREFETCH4(0)              \
	PREFETCH(256)             \
	DOT5                      \
	SUM4                      \
	KSCALES                   \
	NEXTK(320, 32, 4)         \
	DONE

#define ROWQ6K \
	FRAME                     \
	ARGS                      \
	VMOVDQU bits03<>(SB), Y15 \
	VMOVDQU bits45<>(SB), Y13 \
panel:                        \
	PANEL                     \
block:                        \
	BLOCKD                    \
loop:                         \
	PREFETCH4(0)              \
	PREFETCH2(256)            \
	DOT6(0)                   \
	PARTS2                    \
	FIXAT(0, 2, Y2)           \
	FIXAT(4, 2, Y4)           \
	SIGNED(0, 0, Y2, Y0)      \
	SIGNED(16, 0, Y4, Y0)     \
	DOT6(32)                  \
	PARTS2                    \
	FIXAT(0, 2, Y2)           \
	FIXAT(4, 2, Y4)           \
	SIGNED(8, 8, Y2, Y1)      \
	SIGNED(24, 8, Y4, Y1)     \
	NEXTK(384, 32, 8)         \
	DONE

#define ROWQ3K \
	FRAME                     \
	ARGS                      \
	VMOVDQU bits01<>(SB), Y15 \
	VMOVDQU bit2<>(SB), Y13   \
panel:                        \
	PANEL                     \
block:                        \
	BLOCKD                    \
loop:                         \
	PREFETCH2(0)              \
	PREFETCH(128)             \
	DOT3(0)                   \
	PARTS4                    \
	FIXAT(0, 5, Y2)           \
	FIXAT(4, 5, Y4)           \
	SIGNED(0, 0, Y2, Y0)      \
	SIGNED(16, 0, Y4, Y0)     \
	DOT3(32)                  \
	PARTS4                    \
	FIXAT(0, 5, Y2)           \
	FIXAT(4, 5, Y4)           \
	SIGNED(8, 8, Y2, Y1)      \
	SIGNED(24, 8, Y4, Y1)     \
	NEXTK(192, 32, 8)         \
	DONE

// Y12 and Y13 are the corrections of the minima.
#define ROWQ2K \
	FRAME                     \
	ARGS                      \
	VMOVDQU bits01<>(SB), Y15 \
panel:                        \
	PANEL                     \
	VXORPS Y12, Y12, Y12      \
	VXORPS Y13, Y13, Y13      \
block:                        \
	BLOCKDMIN                 \
	VMOVUPS parts128<>(SB), Y7 \
	VMULPS 64(R13), Y7, Y6    \
	VMOVUPS Y6, 64(R13)       \
	VMULPS 96(R13), Y7, Y6    \
	VMOVUPS Y6, 96(R13)       \
loop:                         \
	PREFETCH2(0)              \
	DOT2(0)                   \
	PARTS4                    \
	K2(0, 0, Y2, 0, Y0, Y12)  \
	K2(16, 0, Y4, 4, Y0, Y12) \
	DOT2(32)                  \
	PARTS4                    \
	K2(8, 8, Y2, 0, Y1, Y13)  \
	K2(24, 8, Y4, 4, Y1, Y13) \
	NEXTK(128, 32, 8)         \
	VADDPS Y12, Y0, Y0        \
	VADDPS Y13, Y1, Y1        \
	DONE

#define ROWIQ4NL \
	ARGS                      \
	VMOVDQU bits03<>(SB), Y15 \
	TABLE                     \
panel:                        \
	PANEL                     \
loop:                         \
	PREFETCH4(0)              \
	DOTTABLES                 \
	SUMS                      \
	FIXS                      \
	HALVES                    \
	NEXT(256, 32)             \
	DONE

#define ROWIQ4XS \
	FRAME                     \
	ARGS                      \
	VMOVDQU bits03<>(SB), Y15 \
	TABLE                     \
panel:                        \
	PANEL                     \
block:                        \
	BLOCKD                    \
loop:                         \
	PREFETCH4(0)              \
	DOTTABLES                 \
	SUMS                      \
	FIXS                      \
	SIGNEDS                   \
	NEXTK(256, 16, 4)         \
	DONE

// POWERS scales by the upper halves of float32.
#define POWERS \
	VPMOVZXWD (R8), Y6    \
	VPMOVZXWD 16(R8), Y7  \
	VPSLLD    $16, Y6, Y6 \
	VPSLLD    $16, Y7, Y7 \
	SCALES

#define ROWMXFP4 \
	ARGS                               \
	VMOVDQU        bits03<>(SB), Y15   \
	VBROADCASTI128 tableMXFP4<>(SB), Y13 \
panel:                                 \
	PANEL                              \
loop:                                  \
	PREFETCH4(0)              \
	DOTTABLE                  \
	SUM4                      \
	FIX(3)                    \
	POWERS                    \
	NEXT(256, 32)                      \
	DONE
