//lint:file-ignore U1000 the structs mirror llama.h field by field

package llamalib

import (
	"encoding/binary"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"unsafe"

	"github.com/ebitengine/purego"

	"mm-abi.org/mm/cmd/mm-native/dynlib"
)

// llama.cpp's structures change every few weeks without a change of its file names. A
// library is used only if its version is in the table, and if its defaults are at the
// offsets of that version's structures.

// modelParams is llama_model_params of version 0.5.
type modelParams struct {
	devices, overrides               uintptr
	gpuLayers, splitMode, loadMode   int32
	lazyMode, mainGPU                int32
	_                                int32
	tensorSplit                      uintptr
	progress, progressData, override uintptr
	vocabOnly, checkTensors          bool
	useExtraBufts, noHost, noAlloc   bool
	loadMTP                          bool
	_                                [2]byte
}

// contextParams is llama_context_params of version 0.5.
type contextParams struct {
	ctx, batch, ubatch, seqMax        uint32
	rsSeq, outputsMax, outputsPerSeq  uint32
	threads, threadsBatch             int32
	ctxType, ropeScaling, pooling     int32
	attention, flash                  int32
	ropeBase, ropeScale               float32
	yarnExt, yarnAttn, yarnF, yarnS   float32
	yarnOrig                          uint32
	defrag                            float32
	cbEval, cbEvalData                uintptr
	typeK, typeV                      uint32
	abort, abortData                  uintptr
	embeddings, offloadKQV, noPerf    bool
	opOffload, swaFull, kvUnified     bool
	_                                 [2]byte
	samplers, samplersN, contextOther uintptr
}

// batch is llama_batch, unchanged since 2023.
type batch struct {
	tokens int32
	_      int32
	token  uintptr
	embd   uintptr
	pos    uintptr
	seqN   uintptr
	seqID  uintptr
	logits uintptr
}

// layout describes a version's structures: their sizes, and values of the library's
// defaults at offsets.
type layout struct {
	model, context       int // bytes
	modelAt, contextAt   map[int]uint32
	modelByte, contextOn map[int]byte
}

// layouts returns the known layouts by major and minor version.
func layouts() map[[2]int]layout {
	minus := math.Float32bits(-1)
	return map[[2]int]layout{
		{0, 5}: {
			model: int(unsafe.Sizeof(modelParams{})), context: int(unsafe.Sizeof(contextParams{})),
			modelAt:   map[int]uint32{16: math.MaxUint32, 24: math.MaxUint32, 28: 1, 32: 0, 64: 0, 68: 0},
			modelByte: map[int]byte{72: 0, 73: 0, 74: 1, 75: 0, 76: 0, 77: 0},
			contextAt: map[int]uint32{
				0: 512, 4: 2048, 8: 512, 12: 1, 16: 0, 20: 0, 24: 1, 40: math.MaxUint32, 52: math.MaxUint32,
				64: minus, 68: minus, 72: minus, 76: minus, 84: minus, 104: 1, 108: 1,
			},
			contextOn: map[int]byte{128: 0, 129: 1, 130: 1, 131: 1, 132: 1, 133: 0},
		},
	}
}

var versionText = regexp.MustCompile(`^v?(\d{1,4})\.(\d{1,4})\.`)

// layoutOf returns the layout of a version such as "0.5.0-dev".
func layoutOf(version string) (layout, error) {
	all := layouts()
	m := versionText.FindStringSubmatch(version)
	if m == nil {
		return layout{}, fmt.Errorf("unsupported version %q of llama.cpp: want 0.5", version)
	}
	major, _ := strconv.Atoi(m[1]) // at most four digits
	minor, _ := strconv.Atoi(m[2])
	l, ok := all[[2]int{major, minor}]
	if !ok {
		return layout{}, fmt.Errorf("unsupported version %s of llama.cpp: want 0.5, its structures may differ", version)
	}
	return l, nil
}

// The canary is larger than every structure, of a byte that no default has.
const (
	canaryBytes = 1024
	canary      = 0xA5
)

// defaults lets the library write its defaults over canaries. If structures are returned
// through a pointer in a separate register, the buffer is filled with zeros.
func defaults(function uintptr) []byte {
	if returnsByArgument {
		field := make([]byte, canaryBytes)
		for i := range field {
			field[i] = canary
		}
		purego.SyscallN(function, uintptr(unsafe.Pointer(&field[0])))
		return field
	}
	var f func() struct{ words [canaryBytes / 8]uint64 }
	purego.RegisterFunc(&f, function)
	var field []byte
	for _, w := range f().words {
		field = binary.LittleEndian.AppendUint64(field, w)
	}
	return field
}

// probe compares the library's defaults with those of a version.
func probe(name string, field []byte, size int, at map[int]uint32, on map[int]byte) error {
	beyond := byte(0)
	if returnsByArgument {
		beyond = canary
	}
	end := len(field)
	for end > 0 && field[end-1] == beyond {
		end--
	}
	// The last bytes may be padding, or zeros in a field of zeros.
	if end > size || returnsByArgument && end < size-8 {
		return fmt.Errorf("%s: got %d bytes, want %d", name, end, size)
	}
	for offset, want := range at {
		if got := binary.LittleEndian.Uint32(field[offset:]); got != want {
			return fmt.Errorf("%s: got %#x at byte %d, want %#x", name, got, offset, want)
		}
	}
	for offset, want := range on {
		if field[offset] != want {
			return fmt.Errorf("%s: got %#x at byte %d, want %#x", name, field[offset], offset, want)
		}
	}
	return nil
}

// check refuses a library whose structures do not match its version.
func check(l *dynlib.Library, version string) error {
	want, err := layoutOf(version)
	if err != nil {
		return err
	}
	model, err := l.Symbol("llama_model_default_params")
	if err != nil {
		return err
	}
	context, err := l.Symbol("llama_context_default_params")
	if err != nil {
		return err
	}
	if err := probe("llama_model_params", defaults(model), want.model, want.modelAt, want.modelByte); err != nil {
		return fmt.Errorf("llama.cpp %s does not match its version: %w", version, err)
	}
	if err := probe("llama_context_params", defaults(context), want.context, want.contextAt, want.contextOn); err != nil {
		return fmt.Errorf("llama.cpp %s does not match its version: %w", version, err)
	}
	return nil
}
