// The arguments of a tile of the product and its way to C.

DATA gemmOne<>+0(SB)/4, $0x3f800000
GLOBL gemmOne<>(SB), RODATA|NOPTR, $4

#define ARGS \
	MOVQ k+0(FP), CX; \
	MOVQ a+8(FP), AX; \
	MOVQ rs+16(FP), R8; \
	MOVQ cs+24(FP), R12; \
	MOVQ b+32(FP), BX; \
	MOVQ c+40(FP), DI; \
	MOVQ ldc+48(FP), DX; \
	LEAQ (R8)(R8*2), SI; \
	LEAQ (AX)(SI*1), R9; \
	LEAQ (R9)(SI*1), R10; \
	LEAQ (R10)(SI*1), R11

#define CLEAR512(c0, c1) \
	VPXORD c0, c0, c0; \
	VPXORD c1, c1, c1

// STORE512 writes one row of an AVX-512 tile, BLEND512 adds beta (Z1) times what
// was there, SCALE512 multiplies by alpha (Z0) before either.
#define STORE512(c0, c1) \
	VMOVUPS c0, (DI); \
	VMOVUPS c1, 64(DI); \
	ADDQ DX, DI

#define SCALE512(c0, c1) \
	VMULPS Z0, c0, c0; \
	VMULPS Z0, c1, c1

#define BLEND512(c0, c1) \
	VFMADD231PS (DI), Z1, c0; \
	VFMADD231PS 64(DI), Z1, c1; \
	VMOVUPS c0, (DI); \
	VMOVUPS c1, 64(DI); \
	ADDQ DX, DI

// ALPHA and BETA set the flags: equal when alpha is one, when beta is zero.
#define ALPHA512 \
	VBROADCASTSS alpha+56(FP), Z0; \
	VUCOMISS gemmOne<>(SB), X0

#define BETA512 \
	VBROADCASTSS beta+60(FP), Z1; \
	VXORPS X2, X2, X2; \
	VUCOMISS X2, X1

// ROWS4, ROWS8 and ROWS12 do op to the accumulators of so many rows, from Z8 on.
#define ROWS4(op) \
	op(Z8, Z9); \
	op(Z10, Z11); \
	op(Z12, Z13); \
	op(Z14, Z15)

#define ROWS8(op) \
	ROWS4(op); \
	op(Z16, Z17); \
	op(Z18, Z19); \
	op(Z20, Z21); \
	op(Z22, Z23)

#define ROWS12(op) \
	ROWS8(op); \
	op(Z24, Z25); \
	op(Z26, Z27); \
	op(Z28, Z29); \
	op(Z30, Z31)
