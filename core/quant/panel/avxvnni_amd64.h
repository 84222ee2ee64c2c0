// DPBUSD is VPDPBUSD of 256 bits in the form of AVX-VNNI, which Go's assembler
// lacks: {vex} vpdpbusd ymm_acc, ymm_w, ymm_x. Its arguments are the numbers of
// registers. The prefix has no effect and makes the instruction as long as
// the AVX-512 form, which has the same fields, so that a test can patch that form
// over it and run the kernels on processors without AVX-VNNI.
#define DPBUSD(x, w, acc) \
	BYTE $0x3e                                            \
	BYTE $0xc4                                            \
	BYTE $(0x42 | ((acc>>3)^1)<<7 | ((x>>3)^1)<<5)        \
	BYTE $(((w)^15)<<3 | 5)                               \
	BYTE $0x50                                            \
	BYTE $(0xc0 | ((acc)&7)<<3 | ((x)&7))

DATA sign<>+0(SB)/8, $0x8080808080808080
DATA sign<>+8(SB)/8, $0x8080808080808080
DATA sign<>+16(SB)/8, $0x8080808080808080
DATA sign<>+24(SB)/8, $0x8080808080808080
GLOBL sign<>(SB), RODATA|NOPTR, $32
