//go:build amd64 && !purego

#include "textflag.h"

// The products of one row of activations with a panel of 32 rows of floats.

#define FLOATS \
	MOVQ y+0(FP), DI  \
	MOVQ w+8(FP), SI  \
	MOVQ x+16(FP), R9 \
	MOVQ k+24(FP), CX

#define YZERO \
	VXORPS Y0, Y0, Y0 \
	VXORPS Y1, Y1, Y1 \
	VXORPS Y2, Y2, Y2 \
	VXORPS Y3, Y3, Y3

#define YFMA \
	VBROADCASTSS (R9), Y8     \
	VFMADD231PS  Y8, Y4, Y0   \
	VFMADD231PS  Y8, Y5, Y1   \
	VFMADD231PS  Y8, Y6, Y2   \
	VFMADD231PS  Y8, Y7, Y3   \
	ADDQ $64, SI              \
	ADDQ $4, R9               \
	DECQ CX                   \
	JNZ  loop

#define YSTORE \
	VMOVUPS Y0, (DI)   \
	VMOVUPS Y1, 32(DI) \
	VMOVUPS Y2, 64(DI) \
	VMOVUPS Y3, 96(DI) \
	VZEROUPPER         \
	RET

#define ZSTEP(i, LOAD) \
	LOAD((64*i)(SI), Z4)               \
	LOAD((64*i+32)(SI), Z5)            \
	VFMADD231PS.BCST (4*i)(R9), Z4, Z0 \
	VFMADD231PS.BCST (4*i)(R9), Z5, Z1

#define ZLOOP(LOAD) \
	VPXORD Z0, Z0, Z0 \
	VPXORD Z1, Z1, Z1 \
	SUBQ $4, CX   \
	JLT  rest     \
four:             \
	ZSTEP(0, LOAD) \
	PREFETCHT0 4096(SI) \
	ZSTEP(1, LOAD) \
	PREFETCHT0 4160(SI) \
	ZSTEP(2, LOAD) \
	PREFETCHT0 4224(SI) \
	ZSTEP(3, LOAD) \
	PREFETCHT0 4288(SI) \
	ADDQ $256, SI \
	ADDQ $16, R9  \
	SUBQ $4, CX   \
	JGE  four     \
rest:             \
	ADDQ $4, CX   \
	JZ   store    \
single:           \
	ZSTEP(0, LOAD) \
	ADDQ $64, SI  \
	ADDQ $4, R9   \
	DECQ CX       \
	JNZ  single   \
store:            \
	VMOVUPS Z0, (DI)   \
	VMOVUPS Z1, 64(DI) \
	VZEROUPPER         \
	RET

#define LOADF16(mem, reg) VCVTPH2PS mem, reg

#define LOADBF16(mem, reg) \
	VPMOVZXWD mem, reg \
	VPSLLD $16, reg, reg

// func rowF16AVX2(y *float32, w *byte, x *float32, k int)
TEXT ·rowF16AVX2(SB), NOSPLIT, $0-32
	FLOATS
	YZERO

loop:
	VCVTPH2PS (SI), Y4
	VCVTPH2PS 16(SI), Y5
	VCVTPH2PS 32(SI), Y6
	VCVTPH2PS 48(SI), Y7
	YFMA
	YSTORE

// func rowBF16AVX2(y *float32, w *byte, x *float32, k int)
TEXT ·rowBF16AVX2(SB), NOSPLIT, $0-32
	FLOATS
	YZERO

loop:
	VPMOVZXWD (SI), Y4
	VPMOVZXWD 16(SI), Y5
	VPMOVZXWD 32(SI), Y6
	VPMOVZXWD 48(SI), Y7
	VPSLLD    $16, Y4, Y4
	VPSLLD    $16, Y5, Y5
	VPSLLD    $16, Y6, Y6
	VPSLLD    $16, Y7, Y7
	YFMA
	YSTORE

// func rowF16AVX512(y *float32, w *byte, x *float32, k int)
TEXT ·rowF16AVX512(SB), NOSPLIT, $0-32
	FLOATS
	ZLOOP(LOADF16)

// func rowBF16AVX512(y *float32, w *byte, x *float32, k int)
TEXT ·rowBF16AVX512(SB), NOSPLIT, $0-32
	FLOATS
	ZLOOP(LOADBF16)
