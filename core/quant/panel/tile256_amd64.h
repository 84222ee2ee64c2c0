// Products of a panel of 16 rows of weights with 4 of the 8 rows of a tile of
// activations, in registers of 256 bits. Weights are unsigned bytes; fix
// subtracts their offset. A file that includes this one defines
//
//	SETROW0 … SETROW3, ADDROW0 … ADDROW3   the two sums of a row of
//	            activations become, or grow by, the products of the four
//	            columns Y8 and Y9 with Y10
//	NARROW      Y0 to Y7 are the sums of 32 columns of at most 4 bits
//	FIVE        the same of 5 bits
//	WHOLE       the same of 8 bits, 128 added
//	LOWER(at)   the sums of 16 columns from unit at on, of at most 3 bits
//	SIX(at)     the same of 6 bits
//
// Registers: DI y, AX its stride; SI weights, DX their upper halves; R8
// their scales, BX their minima; R9 activations; R10 their scales; R11 their
// sums; R12 fix; CX groups of 32 columns; R15 the results so far and saved
// values. Y0 to Y7 are the integer sums, two for each row of activations. Y15
// is for the file that includes this one.

#define BEGIN \
	LEAQ    63(SP), R15    \
	ANDQ    $~63, R15      \
	MOVQ    y+0(FP), DI    \
	MOVQ    ldy+8(FP), AX  \
	SHLQ    $2, AX         \
	MOVQ    w+16(FP), SI   \
	MOVQ    high+24(FP), DX \
	MOVQ    scale+32(FP), R8 \
	MOVQ    minimum+40(FP), BX \
	MOVQ    x+48(FP), R9   \
	MOVQ    d+56(FP), R10  \
	MOVQ    sum+64(FP), R11 \
	MOVQ    fix+72(FP), R12 \
	MOVQ    groups+80(FP), CX \
	VXORPS  Y0, Y0, Y0     \
	VMOVUPS Y0, (R15)      \
	VMOVUPS Y0, 32(R15)    \
	VMOVUPS Y0, 64(R15)    \
	VMOVUPS Y0, 96(R15)    \
	VMOVUPS Y0, 128(R15)   \
	VMOVUPS Y0, 160(R15)   \
	VMOVUPS Y0, 192(R15)   \
	VMOVUPS Y0, 224(R15)

#define STORE(r) \
	VMOVUPS (64*r)(R15), Y0    \
	VMOVUPS (64*r+32)(R15), Y1 \
	VMOVUPS Y0, (DI)           \
	VMOVUPS Y1, 32(DI)         \
	ADDQ    AX, DI

#define END \
	STORE(0)   \
	STORE(1)   \
	STORE(2)   \
	STORE(3)   \
	VZEROUPPER \
	RET

// UNIT multiplies four columns.
#define UNIT(i, w, A, B, C, D) \
	VMOVDQU      (64*i)(w), Y8       \
	VMOVDQU      (64*i+32)(w), Y9    \
	VPBROADCASTD (32*i)(R9), Y10     \
	A                                \
	VPBROADCASTD (32*i+4)(R9), Y10   \
	B                                \
	VPBROADCASTD (32*i+8)(R9), Y10   \
	C                                \
	VPBROADCASTD (32*i+12)(R9), Y10  \
	D

#define SET(i, w) UNIT(i, w, SETROW0, SETROW1, SETROW2, SETROW3)
#define ADD(i, w) UNIT(i, w, ADDROW0, ADDROW1, ADDROW2, ADDROW3)

#define TWO(at, w) \
	SET(at, w)     \
	ADD((at+1), w)
#define FOUR(at, w) \
	TWO(at, w)     \
	ADD((at+2), w) \
	ADD((at+3), w)
#define EIGHT(w) \
	FOUR(0, w) \
	ADD(4, w)  \
	ADD(5, w)  \
	ADD(6, w)  \
	ADD(7, w)

// OUT scales the sums of a row of activations and adds them to its results.
#define OUT(r, a, b, FIX, LESS) \
	FIX(r, a, b)                          \
	VCVTDQ2PS    a, a                     \
	VCVTDQ2PS    b, b                     \
	VBROADCASTSS (4*r)(R10), Y10          \
	VMULPS       Y13, Y10, Y11            \
	VMULPS       Y14, Y10, Y12            \
	VFMADD213PS  (64*r)(R15), Y11, a      \
	VFMADD213PS  (64*r+32)(R15), Y12, b   \
	LESS(r, a, b)                         \
	VMOVUPS      a, (64*r)(R15)           \
	VMOVUPS      b, (64*r+32)(R15)

#define OUTS(scales, FIX, LESS) \
	VMOVUPS scales(R8), Y13      \
	VMOVUPS (scales+32)(R8), Y14 \
	OUT(0, Y0, Y1, FIX, LESS)    \
	OUT(1, Y2, Y3, FIX, LESS)    \
	OUT(2, Y4, Y5, FIX, LESS)    \
	OUT(3, Y6, Y7, FIX, LESS)

// FIXn subtracts the excess of the offset 128>>n; FIX2U and FIX5U are
// those of the second 16 columns.
#define TAKE(at, n, a, b) \
	VPBROADCASTD at(R12), Y10 \
	VPSRAD       $n, Y10, Y10 \
	VPADDD       Y10, a, a    \
	VPADDD       Y10, b, b
#define FIX0(r, a, b) \
	VPBROADCASTD (4*r)(R12), Y10 \
	VPADDD       Y10, a, a       \
	VPADDD       Y10, b, b
#define FIX2(r, a, b) TAKE((4*r), 2, a, b)
#define FIX3(r, a, b) TAKE((4*r), 3, a, b)
#define FIX4(r, a, b) TAKE((4*r), 4, a, b)
#define FIX5(r, a, b) TAKE((4*r), 5, a, b)
#define FIX2U(r, a, b) TAKE((4*r+32), 2, a, b)
#define FIX5U(r, a, b) TAKE((4*r+32), 5, a, b)
#define NOFIX(r, a, b)

// LESS subtracts the minimum times the sum of the activations.
#define LESS(r, a, b) \
	VBROADCASTSS (4*r)(R11), Y10  \
	VFNMADD231PS (BX), Y10, a     \
	VFNMADD231PS 32(BX), Y10, b
#define NOLESS(r, a, b)

// TILE32 is a kernel with one scale for 32 columns, TILE16 one with two.
#define TILE32(DOT, FIX, LESS) \
	BEGIN               \
loop:                   \
	DOT                 \
	OUTS(0, FIX, LESS)  \
	ADDQ $512, SI       \
	ADDQ $512, DX       \
	ADDQ $64, R8        \
	ADDQ $64, BX        \
	ADDQ $256, R9       \
	ADDQ $32, R10       \
	ADDQ $32, R11       \
	ADDQ $32, R12       \
	DECQ CX             \
	JNZ  loop           \
	END

#define TILE16(DOT, FIX, FIXU) \
	BEGIN                  \
loop:                      \
	DOT(0)                 \
	OUTS(0, FIX, NOLESS)   \
	DOT(4)                 \
	OUTS(64, FIXU, NOLESS) \
	ADDQ $512, SI          \
	ADDQ $128, R8          \
	ADDQ $256, R9          \
	ADDQ $32, R10          \
	ADDQ $64, R12          \
	DECQ CX                \
	JNZ  loop              \
	END
