// The kernels below compute a run of tiles: each tile is a few pixels beside
// each other, of one block of channels or two, held in registers from the bias
// to the bound. The one argument is a *convArgs, at these offsets.

#define argX     0
#define argTaps  8
#define argCount 16
#define argW     24
#define argOut   32
#define argBias  40
#define argAdd   48
#define argPixel 56
#define argDepth 64
#define argStep  72
#define argPlane 80
#define argLow   88
#define argHigh  92
#define argTiles 96

// Five pointers, three pixels apart from one to the next, reach 15 pixels with
// the scales that an address may have. R8 is a pixel, R14 are three.
#define BASES \
	LEAQ (AX)(R14*1), R9; \
	LEAQ (R9)(R14*1), R10; \
	LEAQ (R10)(R14*1), R11; \
	LEAQ (R11)(R14*1), R13

// BEGIN loads what all tiles share; the tile's own places are kept on the stack.
#define BEGIN \
	MOVQ a+0(FP), DI; \
	MOVQ argX(DI), R15; \
	MOVQ argOut(DI), DX; \
	MOVQ DX, out-8(SP); \
	MOVQ argAdd(DI), DX; \
	MOVQ DX, add-16(SP); \
	MOVQ argTiles(DI), DX; \
	MOVQ DX, tiles-24(SP)

// OPEN is before the taps of a tile.
#define OPEN \
	MOVQ argPixel(DI), R8; \
	MOVQ argDepth(DI), R12; \
	LEAQ (R8)(R8*2), R14; \
	MOVQ argTaps(DI), SI; \
	MOVQ argCount(DI), DX; \
	MOVQ argW(DI), BX

// TAP goes to the next tap: its first pixel in AX, its second word in CX.
#define TAP \
	MOVQ (SI), AX; \
	MOVQ 8(SI), CX; \
	ADDQ R15, AX; \
	ADDQ $16, SI; \
	BASES

// WITH begins the addition of what lies at add, CLOSE the writing of a tile.
#define WITH \
	MOVQ add-16(SP), DX; \
	MOVQ argStep(DI), R8; \
	MOVQ argPlane(DI), R9; \
	TESTQ DX, DX

#define CLOSE \
	MOVQ out-8(SP), DX; \
	MOVQ argStep(DI), R8; \
	MOVQ argPlane(DI), R9

// NEXT goes on by a tile of n pixels.
#define NEXT(n) \
	MOVQ DX, out-8(SP); \
	MOVQ argPixel(DI), R8; \
	IMUL3Q $n, R8, R8; \
	ADDQ R8, R15; \
	DECQ tiles-24(SP)


