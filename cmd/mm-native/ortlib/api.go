package ortlib

import (
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"strconv"
	"unsafe"

	"github.com/ebitengine/purego"

	"mm-abi.org/mm/cmd/mm-native/dynlib"
)

// slot is the index of a function in OrtApi. The table only grows at its end, so an index
// means the same function in all versions.
type slot int

// The functions in use (onnxruntime_c_api.h).
const (
	getErrorMessage        slot = 2
	createEnv              slot = 3
	disableTelemetry       slot = 6
	createSession          slot = 7
	run                    slot = 9
	createSessionOptions   slot = 10
	setIntraOpThreads      slot = 24
	setInterOpThreads      slot = 25
	sessionInputCount      slot = 30
	sessionOutputCount     slot = 31
	sessionInputTypeInfo   slot = 33
	sessionInputName       slot = 36
	sessionOutputName      slot = 37
	createRunOptions       slot = 39
	runOptionsSetTerminate slot = 46
	createTensor           slot = 48
	createTensorWithData   slot = 49
	tensorData             slot = 51
	fillStrings            slot = 52
	stringsLength          slot = 53
	stringsContent         slot = 54
	castTypeInfo           slot = 55
	tensorElementType      slot = 60
	dimensionsCount        slot = 61
	dimensions             slot = 62
	tensorTypeAndShape     slot = 65
	valueType              slot = 67
	createCPUMemoryInfo    slot = 69
	allocatorFree          slot = 76
	defaultAllocator       slot = 78
	releaseStatus          slot = 93
	releaseSession         slot = 95
	releaseValue           slot = 96
	releaseRunOptions      slot = 97
	releaseTypeInfo        slot = 98
	releaseTensorInfo      slot = 99
	releaseSessionOptions  slot = 100
	addSessionConfigEntry  slot = 130
	minMinor, maxMinor          = 23, 30 // of the supported versions
	valueTensor                 = 1      // ONNX_TYPE_TENSOR
	loggingError                = 3      // ORT_LOGGING_LEVEL_ERROR
)

// api is the table of functions of a version.
type api struct {
	table   uintptr
	version string
}

var versionText = regexp.MustCompile(`^1\.(\d{1,4})\.`)

// apiVersion returns the version of the table to request: the library's own, or the newest one
// supported here. Requesting a missing one prints an error.
func apiVersion(version string) (uint32, error) {
	m := versionText.FindStringSubmatch(version)
	if m == nil {
		return 0, fmt.Errorf("unsupported version %q of ONNX Runtime: want 1.%d or later", version, minMinor)
	}
	minor, _ := strconv.Atoi(m[1]) // at most four digits
	if minor < minMinor {
		return 0, fmt.Errorf("unsupported version %s of ONNX Runtime: want 1.%d or later", version, minMinor)
	}
	return uint32(min(minor, maxMinor)), nil
}

// open loads the library of a folder and requests its functions.
func open(dir string) (*api, error) {
	lib, err := dynlib.Open(dir, "libonnxruntime.so.1*", "libonnxruntime.1*.dylib", "onnxruntime.dll")
	if err != nil {
		return nil, err
	}
	var base func() uintptr
	if err := lib.Bind(map[string]any{"OrtGetApiBase": &base}); err != nil {
		return nil, err
	}
	b := base()
	if b == 0 {
		return nil, errors.New("ONNX Runtime has no table of functions")
	}
	getAPI, getVersion := word(b, 0), word(b, 1)
	text, _, _ := purego.SyscallN(getVersion)
	a := &api{version: dynlib.String(text)}
	want, err := apiVersion(a.version)
	if err != nil {
		return nil, err
	}
	if a.table, _, _ = purego.SyscallN(getAPI, uintptr(want)); a.table == 0 {
		return nil, fmt.Errorf("ONNX Runtime %s: missing version %d of its functions", a.version, want)
	}
	return a, nil
}

// word reads the i-th pointer of an array.
func word(at uintptr, i slot) uintptr {
	return *(*uintptr)(dynlib.Pointer(at + uintptr(i)*unsafe.Sizeof(at)))
}

// call calls a function that returns a status. Pointers among the arguments are not moved while
// it runs.
//
//go:uintptrescapes
func (a *api) call(f slot, args ...uintptr) error {
	status, _, _ := purego.SyscallN(word(a.table, f), args...)
	if status == 0 {
		return nil
	}
	text, _, _ := purego.SyscallN(word(a.table, getErrorMessage), status)
	err := errors.New("ONNX Runtime: " + dynlib.String(text))
	a.release(releaseStatus, status)
	return err
}

// release frees an object.
func (a *api) release(f slot, object uintptr) {
	if object != 0 {
		purego.SyscallN(word(a.table, f), object)
	}
}

// create calls a function whose last argument receives the created object.
//
//go:uintptrescapes
func (a *api) create(f slot, args ...uintptr) (uintptr, error) {
	out := new(uintptr)
	var pin runtime.Pinner // stacks may move
	pin.Pin(out)
	defer pin.Unpin()
	err := a.call(f, append(args, uintptr(unsafe.Pointer(out)))...)
	return *out, err
}

// cString returns a C string in Go memory, which the caller keeps alive.
func cString(s string) *byte { return &append([]byte(s), 0)[0] }
