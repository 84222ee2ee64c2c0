package litertlib

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"mm-abi.org/mm/cmd/mm-native/dynlib"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/runtimes"
)

// api are the functions of LiteRT's C interface in use (litert/c/*.h of version 2.3).
type api struct {
	environment func(n int32, options *option, out *uintptr) int32
	modelOpen   func(env uintptr, path string, out *uintptr) int32
	modelFree   func(model uintptr)

	options     func(out *uintptr) int32
	optionsFree func(options uintptr)
	accelerator func(options uintptr, set int32) int32
	opaque      func(name string, payload, free uintptr, out *uintptr) int32
	addOpaque   func(options, opaque uintptr) int32

	compile      func(env, model, options uintptr, out *uintptr) int32
	compiledFree func(compiled uintptr)
	cancellation func(compiled uintptr, flag *uint32, isSet uintptr) int32
	run          func(compiled, signature, inputs uintptr, in *uintptr, outputs uintptr, out *uintptr) int32

	signatures func(model uintptr, n *uintptr) int32
	signature  func(model, i uintptr, out *uintptr) int32
	input      side
	output     side
	tensorType func(tensor uintptr, t *ranked) int32

	buffer     func(env uintptr, t *ranked, requirements uintptr, out *uintptr) int32
	bufferFree func(buffer uintptr)
	bufferSize func(buffer uintptr, n *uintptr) int32
	lock       func(buffer uintptr, address *uintptr, mode int32) int32
	unlock     func(buffer uintptr) int32

	duplicate func(text string) uintptr // strdup
	free      uintptr                   // the address of free
	isSet     uintptr                   // that of strlen: a flag of four bytes is a text of length 0 or 1
}

// side are the functions for the inputs or the outputs of a signature.
type side struct {
	count        func(signature uintptr, n *uintptr) int32
	name         func(signature, i uintptr, name *uintptr) int32
	tensor       func(signature, i uintptr, tensor *uintptr) int32
	requirements func(compiled, signature, i uintptr, out *uintptr) int32
}

// option is an option of the environment with an integer.
type option struct {
	tag, _  int32
	kind, _ int32
	value   int64
}

// Numbers of the interface.
const (
	registerOnly = 24 // tag of an option: the accelerators to look for
	logFrom      = 25 // tag of an option: the least severity of messages
	integer      = 2  // kind of an option
	processor    = 1  // accelerator
	warnings     = 2  // severity

	readable, writable = 0, 1 // modes of a lock

	maxRank = 8 // dimensions of a tensor
)

// ranked is the type of a tensor with a rank.
type ranked struct {
	elem int32
	rank uint32 // in the lower seven bits
	dims [maxRank]int32
	_    [maxRank]uint32 // strides
}

// elems are the element types by the library's numbers.
var elems = map[int32]runtimes.Elem{
	1: runtimes.Float32, 2: runtimes.Int32, 3: runtimes.Uint8, 4: runtimes.Int64, 6: runtimes.Bool, 7: runtimes.Int16, 9: runtimes.Int8,
	10: runtimes.Float16, 11: runtimes.Float64, 13: runtimes.Uint64, 16: runtimes.Uint32, 17: runtimes.Uint16, 19: runtimes.BFloat16,
}

// load loads the library of a folder.
func load(dir string) (*api, error) {
	lib, err := dynlib.Open(dir, "libLiteRt.so")
	if err != nil {
		return nil, err
	}
	a := &api{}
	if err := lib.Bind(map[string]any{
		"LiteRtCreateEnvironment": &a.environment, "LiteRtCreateModelFromFile": &a.modelOpen, "LiteRtDestroyModel": &a.modelFree,
		"LiteRtCreateOptions": &a.options, "LiteRtDestroyOptions": &a.optionsFree, "LiteRtSetOptionsHardwareAccelerators": &a.accelerator,
		"LiteRtCreateOpaqueOptions": &a.opaque, "LiteRtAddOpaqueOptions": &a.addOpaque,
		"LiteRtCreateCompiledModel": &a.compile, "LiteRtDestroyCompiledModel": &a.compiledFree,
		"LiteRtSetCompiledModelCancellationFunction": &a.cancellation, "LiteRtRunCompiledModel": &a.run,
		"LiteRtGetNumModelSignatures": &a.signatures, "LiteRtGetModelSignature": &a.signature, "LiteRtGetRankedTensorType": &a.tensorType,
		"LiteRtGetNumSignatureInputs": &a.input.count, "LiteRtGetSignatureInputName": &a.input.name,
		"LiteRtGetSignatureInputTensorByIndex": &a.input.tensor, "LiteRtGetCompiledModelInputBufferRequirements": &a.input.requirements,
		"LiteRtGetNumSignatureOutputs": &a.output.count, "LiteRtGetSignatureOutputName": &a.output.name,
		"LiteRtGetSignatureOutputTensorByIndex": &a.output.tensor, "LiteRtGetCompiledModelOutputBufferRequirements": &a.output.requirements,
		"LiteRtCreateManagedTensorBufferFromRequirements": &a.buffer, "LiteRtDestroyTensorBuffer": &a.bufferFree,
		"LiteRtGetTensorBufferPackedSize": &a.bufferSize, "LiteRtLockTensorBuffer": &a.lock, "LiteRtUnlockTensorBuffer": &a.unlock,
		"strdup": &a.duplicate,
	}); err != nil {
		return nil, err
	}
	if a.free, err = lib.Symbol("free"); err != nil {
		return nil, err
	}
	a.isSet, err = lib.Symbol("strlen")
	return a, err
}

// statuses are the usual errors of the library.
var statuses = map[int32]string{
	1: "invalid argument", 2: "out of memory", 3: "failure at run time", 4: "missing input", 5: "unsupported", 6: "not found", 8: "wrong version",
	100: "canceled", 500: "unreadable file", 501: "invalid FlatBuffer", 504: "compilation failed", 1000: "index out of range", 1001: "unsupported type",
}

// check converts a status. The library prints details.
func check(what string, status int32) error {
	switch text := statuses[status]; {
	case status == 0:
		return nil
	case text != "":
		return fmt.Errorf("LiteRT: %s: %s", what, text)
	}
	return fmt.Errorf("LiteRT: %s: status %d", what, status)
}

const (
	maxMetadata = 1 << 20 // bytes
	// interfaceVersion is the version whose functions and structures api has. They
	// change between versions: 2.3 added the environment to the functions of models.
	interfaceVersion = "2.3."
)

var versionLine = regexp.MustCompile(`(?m)^Version: ([0-9][0-9A-Za-z.]*)\r?$`)

// release returns the version in the metadata of the Python package: the library
// has no function for it.
func release(dir string) (string, error) {
	text, err := fsx.ReadFile(filepath.Join(dir, "METADATA"), maxMetadata)
	if err != nil {
		return "", fmt.Errorf("reading the version of LiteRT: %w", err)
	}
	head, _, _ := strings.Cut(string(text), "\n\n")
	m := versionLine.FindStringSubmatch(head)
	if m == nil || !strings.Contains(head, "\nName: ai-edge-litert\n") {
		return "", fmt.Errorf("METADATA is not that of ai-edge-litert")
	}
	if !strings.HasPrefix(m[1], interfaceVersion) {
		return "", fmt.Errorf("unsupported version %s of LiteRT: want %sx", m[1], interfaceVersion)
	}
	return m[1], nil
}
