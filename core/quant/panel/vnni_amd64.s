//go:build amd64 && !purego

#include "textflag.h"

// Products of one row of activations with panels of 16 rows of weights, one
// row a lane, by AVX-512 VNNI. VPDPBUSD multiplies unsigned with signed bytes:
// 8-bit weights have 128 added (their sign bit flipped), narrower ones are
// unsigned as stored; fix32 and fix16 subtract the excess.
//
// Registers: DI y; SI integers; R8 scales; R9 activations; R10 their scales;
// R11 their sums; R12 fix; CX groups of 32 (blocks of 256 for K-quants); BX
// panels. Z0 is the result, Z28 to Z31 are masks.

DATA bytes0f<>+0(SB)/8, $0x0f0f0f0f0f0f0f0f
GLOBL bytes0f<>(SB), RODATA|NOPTR, $8
DATA bytes10<>+0(SB)/8, $0x1010101010101010
GLOBL bytes10<>(SB), RODATA|NOPTR, $8
DATA bytes30<>+0(SB)/8, $0x3030303030303030
GLOBL bytes30<>(SB), RODATA|NOPTR, $8
DATA bytes80<>+0(SB)/8, $0x8080808080808080
GLOBL bytes80<>(SB), RODATA|NOPTR, $8
DATA bytesf0<>+0(SB)/8, $0xf0f0f0f0f0f0f0f0
GLOBL bytesf0<>(SB), RODATA|NOPTR, $8

DATA bytes03<>+0(SB)/8, $0x0303030303030303
GLOBL bytes03<>(SB), RODATA|NOPTR, $8
DATA bytes04<>+0(SB)/8, $0x0404040404040404
GLOBL bytes04<>(SB), RODATA|NOPTR, $8
DATA words0f<>+0(SB)/8, $0x0000000f0000000f
GLOBL words0f<>(SB), RODATA|NOPTR, $8

// The tables of quant.TableIQ4 and quant.TableMXFP4, 128 added.
DATA tableIQ4<>+0(SB)/8, $0x766a5d4f3f2d1801
DATA tableIQ4<>+8(SB)/8, $0xf1d9c5b5a6998d81
GLOBL tableIQ4<>(SB), RODATA|NOPTR, $16
DATA tableMXFP4<>+0(SB)/8, $0x8c88868483828180
DATA tableMXFP4<>+8(SB)/8, $0x74787a7c7d7e7f80
GLOBL tableMXFP4<>(SB), RODATA|NOPTR, $16

#define ARGS \
	MOVQ   y+0(FP), DI       \
	MOVQ   q+8(FP), SI       \
	MOVQ   s+16(FP), R8      \
	MOVQ   panels+64(FP), BX

// PANEL begins a panel: its integers and scales follow those of the last one.
#define PANEL \
	MOVQ   x+24(FP), R9    \
	MOVQ   d+32(FP), R10   \
	MOVQ   sum+40(FP), R11 \
	MOVQ   fix+48(FP), R12 \
	MOVQ   n+56(FP), CX    \
	VPXORD Z0, Z0, Z0

// DONE ends a panel, and the function with the last one.
#define DONE \
	VMOVUPS Z0, (DI) \
	ADDQ    $64, DI  \
	DECQ    BX       \
	JNZ     panel    \
	VZEROUPPER       \
	RET

// PREFETCH prefetches the line that will be read some iterations later: the next
// panel begins at the end of this one.
#define AHEAD 4096
#define PREFETCH(off) PREFETCHT0 (AHEAD+off)(SI)

// DOT8 adds to Z1 and Z2 the products of 32 columns of 8 bits.
#define UNIT8(i, acc) \
	VPXORD        (64*i)(SI), Z31, Z3   \
	VPDPBUSD.BCST (4*i)(R9), Z3, acc

#define DOT8 \
	UNIT8(0, Z1)     \
	UNIT8(1, Z2)     \
	PREFETCH(0)      \
	PREFETCH(64)     \
	UNIT8(2, Z1)     \
	UNIT8(3, Z2)     \
	PREFETCH(128)    \
	PREFETCH(192)    \
	UNIT8(4, Z1)     \
	UNIT8(5, Z2)     \
	PREFETCH(256)    \
	PREFETCH(320)    \
	UNIT8(6, Z1)     \
	UNIT8(7, Z2)     \
	PREFETCH(384)    \
	PREFETCH(448)    \
	ADDQ $512, SI    \
	ADDQ $32, R9

// DOT4 adds to Z1 the products of the lower halves of bytes, and to Z2 16
// times those of the upper halves: 32 columns of 4 bits.
#define UNIT4(i) \
	VMOVDQU64     (64*i)(SI), Z3        \
	VPANDD        Z31, Z3, Z4           \
	VPANDD        Z30, Z3, Z3           \
	VPDPBUSD.BCST (4*i)(R9), Z4, Z1     \
	VPDPBUSD.BCST (4*i+16)(R9), Z3, Z2

#define DOT4 \
	UNIT4(0)      \
	PREFETCH(0)   \
	UNIT4(1)      \
	PREFETCH(64)  \
	UNIT4(2)      \
	PREFETCH(128) \
	UNIT4(3)      \
	PREFETCH(192) \
	ADDQ $256, SI \
	ADDQ $32, R9

// DOT5 adds to Z1 and Z2 the products of 32 columns of 5 bits: bit i of the
// plane Z5 is bit 4 of unit i. The ternary logic is a | b & c.
#define BIT0 VPSLLD $4, Z5, Z6
#define BIT1 VPSLLD $3, Z5, Z6
#define BIT2 VPSLLD $2, Z5, Z6
#define BIT3 VPSLLD $1, Z5, Z6
#define BIT4 VMOVDQA64 Z5, Z6
#define BIT5 VPSRLD $1, Z5, Z6
#define BIT6 VPSRLD $2, Z5, Z6
#define BIT7 VPSRLD $3, Z5, Z6

#define UNITS(i, LOW, HIGH, mask) \
	VMOVDQU64     (64*i)(SI), Z3       \
	VPANDD        Z31, Z3, Z4          \
	VPSRLD        $4, Z3, Z3           \
	VPANDD        Z31, Z3, Z3          \
	LOW                                \
	VPTERNLOGD    $0xf8, Z6, mask, Z4  \
	HIGH                               \
	VPTERNLOGD    $0xf8, Z6, mask, Z3  \
	VPDPBUSD.BCST (4*i)(R9), Z4, Z1    \
	VPDPBUSD.BCST (4*i+16)(R9), Z3, Z2

#define DOT5 \
	VMOVDQU64 256(SI), Z5      \
	UNITS(0, BIT0, BIT4, Z30)  \
	PREFETCH(0)                \
	PREFETCH(64)               \
	UNITS(1, BIT1, BIT5, Z30)  \
	PREFETCH(128)              \
	UNITS(2, BIT2, BIT6, Z30)  \
	PREFETCH(192)              \
	UNITS(3, BIT3, BIT7, Z30)  \
	PREFETCH(256)              \
	ADDQ $320, SI              \
	ADDQ $32, R9

// DOT6 adds to Z1 the products of the first 16 of 32 columns of 6 bits, to Z2
// those of the others. Z5 holds bits 4 and 5 of units 0 to 3, Z7 those of 4
// to 7.
#define PAIR0 VPSLLD $4, Z5, Z6
#define PAIR1 VPSLLD $2, Z5, Z6
#define PAIR2 VMOVDQA64 Z5, Z6
#define PAIR3 VPSRLD $2, Z5, Z6
#define PAIR4 VPSLLD $4, Z7, Z6
#define PAIR5 VPSLLD $2, Z7, Z6
#define PAIR6 VMOVDQA64 Z7, Z6
#define PAIR7 VPSRLD $2, Z7, Z6

#define DOT6 \
	VMOVDQU64 256(SI), Z5        \
	VMOVDQU64 320(SI), Z7        \
	UNITS(0, PAIR0, PAIR4, Z30)  \
	PREFETCH(0)                  \
	PREFETCH(64)                 \
	UNITS(1, PAIR1, PAIR5, Z30)  \
	PREFETCH(128)                \
	UNITS(2, PAIR2, PAIR6, Z30)  \
	PREFETCH(192)                \
	PREFETCH(256)                \
	UNITS(3, PAIR3, PAIR7, Z30)  \
	PREFETCH(320)                \
	ADDQ $384, SI                \
	ADDQ $32, R9

// DOTTABLE adds to Z1 and Z2 the products of 32 columns of 4 bits that index
// the table Z30.
#define UNITTABLE(i) \
	VMOVDQU64     (64*i)(SI), Z3       \
	VPANDD        Z31, Z3, Z4          \
	VPSRLD        $4, Z3, Z3           \
	VPANDD        Z31, Z3, Z3          \
	VPSHUFB       Z4, Z30, Z4          \
	VPSHUFB       Z3, Z30, Z3          \
	VPDPBUSD.BCST (4*i)(R9), Z4, Z1    \
	VPDPBUSD.BCST (4*i+16)(R9), Z3, Z2

#define DOTTABLE \
	UNITTABLE(0)  \
	PREFETCH(0)   \
	UNITTABLE(1)  \
	PREFETCH(64)  \
	UNITTABLE(2)  \
	PREFETCH(128) \
	UNITTABLE(3)  \
	PREFETCH(192) \
	ADDQ $256, SI \
	ADDQ $32, R9

// DOT2 and DOT3 add to Z1 the products of the first 16 of 32 columns of 2 or 3
// bits, to Z2 those of the others. Z5 holds two bits of units 0 to 3, Z7 of 4
// to 7; bit i of the plane Z9 is bit 2 of unit i.
#define UNIT2(i, LOW, HIGH) \
	VPSRLD        $(2*i), Z5, Z4       \
	VPSRLD        $(2*i), Z7, Z3       \
	VPANDD        Z31, Z4, Z4          \
	VPANDD        Z31, Z3, Z3          \
	LOW                                \
	HIGH                               \
	VPDPBUSD.BCST (4*i)(R9), Z4, Z1    \
	VPDPBUSD.BCST (4*i+16)(R9), Z3, Z2

#define NONE

#define DOT2 \
	VMOVDQU64 (SI), Z5     \
	VMOVDQU64 64(SI), Z7   \
	UNIT2(0, NONE, NONE)   \
	PREFETCH(0)            \
	UNIT2(1, NONE, NONE)   \
	UNIT2(2, NONE, NONE)   \
	PREFETCH(64)           \
	UNIT2(3, NONE, NONE)   \
	ADDQ $128, SI          \
	ADDQ $32, R9

#define THIRD(reg) VPTERNLOGD $0xf8, Z6, Z30, reg
#define THIRD0 \
	VPSLLD $2, Z9, Z6 \
	THIRD(Z4)
#define THIRD1 \
	VPSLLD $1, Z9, Z6 \
	THIRD(Z4)
#define THIRD2 \
	VMOVDQA64 Z9, Z6 \
	THIRD(Z4)
#define THIRD3 \
	VPSRLD $1, Z9, Z6 \
	THIRD(Z4)
#define THIRD4 \
	VPSRLD $2, Z9, Z6 \
	THIRD(Z3)
#define THIRD5 \
	VPSRLD $3, Z9, Z6 \
	THIRD(Z3)
#define THIRD6 \
	VPSRLD $4, Z9, Z6 \
	THIRD(Z3)
#define THIRD7 \
	VPSRLD $5, Z9, Z6 \
	THIRD(Z3)

#define DOT3 \
	VMOVDQU64 (SI), Z5     \
	VMOVDQU64 64(SI), Z7   \
	VMOVDQU64 128(SI), Z9  \
	UNIT2(0, THIRD0, THIRD4)  \
	PREFETCH(0)            \
	UNIT2(1, THIRD1, THIRD5)  \
	PREFETCH(64)           \
	UNIT2(2, THIRD2, THIRD6)   \
	PREFETCH(128)          \
	UNIT2(3, THIRD3, THIRD7)  \
	ADDQ $192, SI          \
	ADDQ $32, R9

// SCALE adds float(Z1) · (scale · d) to the result; the scale is in reg.
#define SCALE(ints, reg) \
	VCVTDQ2PS   ints, ints    \
	VMULPS.BCST (R10), reg, reg \
	VFMADD231PS ints, reg, Z0

// NEXT advances to the next group.
#define NEXT \
	ADDQ $4, R10 \
	ADDQ $4, R11 \
	ADDQ $4, R12 \
	DECQ CX      \
	JNZ  loop

// func rowQ8VNNI(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)
TEXT ·rowQ8VNNI(SB), NOSPLIT, $0-72
	ARGS
	VPBROADCASTQ bytes80<>(SB), Z31

panel:
	PANEL

loop:
	VPBROADCASTD (R12), Z1
	VPXORD       Z2, Z2, Z2
	DOT8
	VPADDD       Z2, Z1, Z1
	VCVTPH2PS    (R8), Z8
	SCALE(Z1, Z8)
	ADDQ         $32, R8
	NEXT
	DONE

// func rowQ4VNNI(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)
TEXT ·rowQ4VNNI(SB), NOSPLIT, $0-72
	ARGS
	VPBROADCASTQ bytes0f<>(SB), Z31
	VPBROADCASTQ bytesf0<>(SB), Z30

panel:
	PANEL

loop:
	VPBROADCASTD (R12), Z1
	VPSRAD       $4, Z1, Z1 // -8·Σq of -128·Σq
	VPXORD       Z2, Z2, Z2
	DOT4
	VPSRAD       $4, Z2, Z2
	VPADDD       Z2, Z1, Z1
	VCVTPH2PS    (R8), Z8
	SCALE(Z1, Z8)
	ADDQ         $32, R8
	NEXT
	DONE

// func rowQ5VNNI(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)
TEXT ·rowQ5VNNI(SB), NOSPLIT, $0-72
	ARGS
	VPBROADCASTQ bytes0f<>(SB), Z31
	VPBROADCASTQ bytes10<>(SB), Z30

panel:
	PANEL

loop:
	VPBROADCASTD (R12), Z1
	VPSRAD       $3, Z1, Z1 // -16·Σq
	VPXORD       Z2, Z2, Z2
	DOT5
	VPADDD       Z2, Z1, Z1
	VCVTPH2PS    (R8), Z8
	SCALE(Z1, Z8)
	ADDQ         $32, R8
	NEXT
	DONE

// func rowQ4MinVNNI(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)
TEXT ·rowQ4MinVNNI(SB), NOSPLIT, $0-72
	ARGS
	VPBROADCASTQ bytes0f<>(SB), Z31
	VPBROADCASTQ bytesf0<>(SB), Z30

panel:
	PANEL

loop:
	VPXORD           Z1, Z1, Z1
	VPXORD           Z2, Z2, Z2
	DOT4
	VPSRAD           $4, Z2, Z2
	VPADDD           Z2, Z1, Z1
	VCVTPH2PS        (R8), Z8
	VCVTPH2PS        32(R8), Z9
	SCALE(Z1, Z8)
	VFMADD231PS.BCST (R11), Z9, Z0
	ADDQ             $64, R8
	NEXT
	DONE

// func rowQ5MinVNNI(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)
TEXT ·rowQ5MinVNNI(SB), NOSPLIT, $0-72
	ARGS
	VPBROADCASTQ bytes0f<>(SB), Z31
	VPBROADCASTQ bytes10<>(SB), Z30

panel:
	PANEL

loop:
	VPXORD           Z1, Z1, Z1
	VPXORD           Z2, Z2, Z2
	DOT5
	VPADDD           Z2, Z1, Z1
	VCVTPH2PS        (R8), Z8
	VCVTPH2PS        32(R8), Z9
	SCALE(Z1, Z8)
	VFMADD231PS.BCST (R11), Z9, Z0
	ADDQ             $64, R8
	NEXT
	DONE

// KSCALE scales the products of a group of a K-quant: Z10 is the block's d,
// Z11 its dmin, and R8 points to the group's 16 scales and 16 minima.
#define KSCALE \
	VPMOVZXBD         (R8), Z8        \
	VCVTDQ2PS         Z8, Z8          \
	VMULPS            Z10, Z8, Z8     \
	SCALE(Z1, Z8)                     \
	VPMOVZXBD         16(R8), Z9      \
	VCVTDQ2PS         Z9, Z9          \
	VMULPS            Z11, Z9, Z9     \
	VFNMADD231PS.BCST (R11), Z9, Z0   \
	ADDQ $32, R8

// func rowQ4KVNNI(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)
TEXT ·rowQ4KVNNI(SB), NOSPLIT, $0-72
	ARGS
	VPBROADCASTQ bytes0f<>(SB), Z31
	VPBROADCASTQ bytesf0<>(SB), Z30

panel:
	PANEL

block:
	VCVTPH2PS (R8), Z10
	VCVTPH2PS 32(R8), Z11
	ADDQ      $64, R8
	MOVQ      $8, DX

loop:
	VPXORD Z1, Z1, Z1
	VPXORD Z2, Z2, Z2
	DOT4
	VPSRAD $4, Z2, Z2
	VPADDD Z2, Z1, Z1
	KSCALE
	ADDQ   $4, R10
	ADDQ   $4, R11
	DECQ   DX
	JNZ    loop
	DECQ   CX
	JNZ    block
	DONE

// func rowQ5KVNNI(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)
TEXT ·rowQ5KVNNI(SB), NOSPLIT, $0-72
	ARGS
	VPBROADCASTQ bytes0f<>(SB), Z31
	VPBROADCASTQ bytes10<>(SB), Z30

panel:
	PANEL

block:
	VCVTPH2PS (R8), Z10
	VCVTPH2PS 32(R8), Z11
	ADDQ      $64, R8
	MOVQ      $8, DX

loop:
	VPXORD Z1, Z1, Z1
	VPXORD Z2, Z2, Z2
	DOT5
	VPADDD Z2, Z1, Z1
	KSCALE
	ADDQ   $4, R10
	ADDQ   $4, R11
	DECQ   DX
	JNZ    loop
	DECQ   CX
	JNZ    block
	DONE

// func rowQ6KVNNI(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)
TEXT ·rowQ6KVNNI(SB), NOSPLIT, $0-72
	ARGS
	VPBROADCASTQ bytes0f<>(SB), Z31
	VPBROADCASTQ bytes30<>(SB), Z30

panel:
	PANEL

block:
	VCVTPH2PS (R8), Z10
	ADDQ      $32, R8
	MOVQ      $8, DX

loop:
	VPBROADCASTD (R12), Z1
	VPBROADCASTD 4(R12), Z2
	VPSRAD       $2, Z1, Z1 // -32·Σq
	VPSRAD       $2, Z2, Z2
	DOT6
	VPMOVSXBD    (R8), Z8
	VPMOVSXBD    16(R8), Z9
	VCVTDQ2PS    Z8, Z8
	VCVTDQ2PS    Z9, Z9
	VMULPS       Z10, Z8, Z8
	VMULPS       Z10, Z9, Z9
	SCALE(Z1, Z8)
	SCALE(Z2, Z9)
	ADDQ         $32, R8
	ADDQ         $4, R10
	ADDQ         $8, R12
	DECQ         DX
	JNZ          loop
	DECQ         CX
	JNZ          block
	DONE

// func rowQ3KVNNI(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)
TEXT ·rowQ3KVNNI(SB), NOSPLIT, $0-72
	ARGS
	VPBROADCASTQ bytes03<>(SB), Z31
	VPBROADCASTQ bytes04<>(SB), Z30

panel:
	PANEL

block:
	VCVTPH2PS (R8), Z10
	ADDQ      $32, R8
	MOVQ      $8, DX

loop:
	VPBROADCASTD (R12), Z1
	VPBROADCASTD 4(R12), Z2
	VPSRAD       $5, Z1, Z1 // -4·Σq
	VPSRAD       $5, Z2, Z2
	DOT3
	VPMOVSXBD    (R8), Z8
	VPMOVSXBD    16(R8), Z9
	VCVTDQ2PS    Z8, Z8
	VCVTDQ2PS    Z9, Z9
	VMULPS       Z10, Z8, Z8
	VMULPS       Z10, Z9, Z9
	SCALE(Z1, Z8)
	SCALE(Z2, Z9)
	ADDQ         $32, R8
	ADDQ         $4, R10
	ADDQ         $8, R12
	DECQ         DX
	JNZ          loop
	DECQ         CX
	JNZ          block
	DONE

// func rowQ2KVNNI(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)
TEXT ·rowQ2KVNNI(SB), NOSPLIT, $0-72
	ARGS
	VPBROADCASTQ bytes03<>(SB), Z31
	VPBROADCASTQ words0f<>(SB), Z30

panel:
	PANEL
	VPXORD Z14, Z14, Z14 // the correction of the minima

block:
	VCVTPH2PS (R8), Z10
	VCVTPH2PS 32(R8), Z11
	ADDQ      $64, R8
	MOVQ      $8, DX

loop:
	VPXORD       Z1, Z1, Z1
	VPXORD       Z2, Z2, Z2
	DOT2
	VPMOVZXBD    (R8), Z8
	VPMOVZXBD    16(R8), Z9
	VPSRLD       $4, Z8, Z12
	VPSRLD       $4, Z9, Z13
	VPANDD       Z30, Z8, Z8
	VPANDD       Z30, Z9, Z9
	VCVTDQ2PS    Z8, Z8
	VCVTDQ2PS    Z9, Z9
	VMULPS       Z10, Z8, Z8
	VMULPS       Z10, Z9, Z9
	SCALE(Z1, Z8)
	SCALE(Z2, Z9)
	VPBROADCASTD (R12), Z1
	VPBROADCASTD 4(R12), Z2
	VPSRAD       $7, Z1, Z1 // -Σq
	VPSRAD       $7, Z2, Z2
	VCVTDQ2PS    Z1, Z1
	VCVTDQ2PS    Z2, Z2
	VCVTDQ2PS    Z12, Z12
	VCVTDQ2PS    Z13, Z13
	VMULPS       Z11, Z12, Z12
	VMULPS       Z11, Z13, Z13
	VMULPS.BCST  (R10), Z12, Z12
	VMULPS.BCST  (R10), Z13, Z13
	VFMADD231PS  Z1, Z12, Z14
	VFMADD231PS  Z2, Z13, Z14
	ADDQ         $32, R8
	ADDQ         $4, R10
	ADDQ         $8, R12
	DECQ         DX
	JNZ          loop
	DECQ         CX
	JNZ          block
	VADDPS       Z14, Z0, Z0
	DONE

// func rowIQ4NLVNNI(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)
TEXT ·rowIQ4NLVNNI(SB), NOSPLIT, $0-72
	ARGS
	VPBROADCASTQ    bytes0f<>(SB), Z31
	VBROADCASTI32X4 tableIQ4<>(SB), Z30

panel:
	PANEL

loop:
	VPBROADCASTD (R12), Z1
	VPXORD       Z2, Z2, Z2
	DOTTABLE
	VPADDD       Z2, Z1, Z1
	VCVTPH2PS    (R8), Z8
	SCALE(Z1, Z8)
	ADDQ         $32, R8
	NEXT
	DONE

// func rowMXFP4VNNI(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)
TEXT ·rowMXFP4VNNI(SB), NOSPLIT, $0-72
	ARGS
	VPBROADCASTQ    bytes0f<>(SB), Z31
	VBROADCASTI32X4 tableMXFP4<>(SB), Z30

panel:
	PANEL

loop:
	VPBROADCASTD (R12), Z1
	VPXORD       Z2, Z2, Z2
	DOTTABLE
	VPADDD       Z2, Z1, Z1
	VPMOVZXWD    (R8), Z8
	VPSLLD       $16, Z8, Z8
	SCALE(Z1, Z8)
	ADDQ         $32, R8
	NEXT
	DONE

// func rowIQ4XSVNNI(y *float32, q, s *byte, x *int8, d, sum *float32, fix *int32, n, panels int)
TEXT ·rowIQ4XSVNNI(SB), NOSPLIT, $0-72
	ARGS
	VPBROADCASTQ    bytes0f<>(SB), Z31
	VBROADCASTI32X4 tableIQ4<>(SB), Z30

panel:
	PANEL

block:
	VCVTPH2PS (R8), Z10
	ADDQ      $32, R8
	MOVQ      $8, DX

loop:
	VPBROADCASTD (R12), Z1
	VPXORD       Z2, Z2, Z2
	DOTTABLE
	VPADDD       Z2, Z1, Z1
	VPMOVSXBD    (R8), Z8
	VCVTDQ2PS    Z8, Z8
	VMULPS       Z10, Z8, Z8
	SCALE(Z1, Z8)
	ADDQ         $16, R8
	ADDQ         $4, R10
	ADDQ         $4, R12
	DECQ         DX
	JNZ          loop
	DECQ         CX
	JNZ          block
	DONE
