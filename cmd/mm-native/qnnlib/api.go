package qnnlib

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"unsafe"

	"github.com/ebitengine/purego"

	"mm-abi.org/mm/cmd/mm-native/dynlib"
	"mm-abi.org/mm/runtimes/qnn/ask"
)

// slot is the index of a function in the table of a QnnInterface_t, which only grows at its end
// within a major version.
type slot int

// The functions in use.
const (
	backendCreate      slot = 1
	backendBuildID     slot = 4
	backendFree        slot = 8
	contextFromBinary  slot = 13
	contextFree        slot = 14
	graphRetrieve      slot = 20
	graphExecute       slot = 21
	logCreate          slot = 25
	logFree            slot = 27
	profileCreate      slot = 28
	profileEvents      slot = 30
	profileSubEvents   slot = 31
	profileEventData   slot = 32
	profileFree        slot = 34
	platformInfo       slot = 37
	platformFree       slot = 38
	deviceCreate       slot = 40
	deviceFree         slot = 43
	errorMessage       slot = 48
	systemCreate       slot = 0 // in the table of QnnSystem
	systemBinaryInfo   slot = 1
	systemFree         slot = 3
	tableAt                 = 40 // offset in a QnnInterface_t
	systemTableAt           = 32 // offset in a QnnSystemInterface_t
	coreMajor               = 2  // of the supported interface
	coreMinor               = 10 // the first with the functions above, except errorMessage
	messageMinor            = 20 // the first with errorMessage
	systemMajor             = 1
	htpBackend              = 6    // QNN's number of the HTP
	errNotSupported         = 1000 // result of a function that a backend lacks
	providersOfBackend      = "QnnInterface_getProviders"
	providersOfSystem       = "QnnSystemInterface_getProviders"
)

// table is the functions of a library.
type table struct {
	at    uintptr // of the first function
	name  string
	id    uint32 // of the backend
	core  ask.Version
	iface ask.Version // of the backend's or the system's interface
	texts bool        // it has errorMessage
}

// fileName returns the file name of a library on this system.
func fileName(library string) string {
	switch runtime.GOOS {
	case "windows":
		return library + ".dll"
	case "darwin":
		return "lib" + library + ".dylib"
	}
	return "lib" + library + ".so"
}

// provider loads a library and returns the address of its only interface.
func provider(dir, library, entry string) (uintptr, error) {
	path := filepath.Join(dir, fileName(library))
	if info, err := os.Stat(path); err != nil {
		return 0, fmt.Errorf("missing %s in %s", fileName(library), dir)
	} else if !info.Mode().IsRegular() {
		return 0, fmt.Errorf("%s is not a regular file", path)
	}
	lib, err := dynlib.Private(path)
	if err != nil {
		return 0, err
	}
	var get func(list *uintptr, n *uint32) uint64
	if err := lib.Bind(map[string]any{entry: &get}); err != nil {
		return 0, err
	}
	list, n := new(uintptr), new(uint32)
	if rc := get(list, n); rc != 0 || *n < 1 || *list == 0 {
		return 0, fmt.Errorf("%s: no unique interface (result %d, %d interfaces)", path, rc, *n)
	}
	at := *(*uintptr)(dynlib.Pointer(*list))
	if at == 0 {
		return 0, fmt.Errorf("%s: no interface", path)
	}
	return at, nil
}

// openHTP loads the HTP's library, which emulates the HTP on x86-64.
func openHTP(dir string) (*table, error) {
	at, err := provider(dir, "QnnHtp", providersOfBackend)
	if err != nil {
		return nil, err
	}
	t := &table{at: at + tableAt, id: u32(at), name: dynlib.String(pointer(at + 8)), core: version(at + 16), iface: version(at + 28)}
	if t.core[0] != coreMajor || t.core[1] < coreMinor {
		return nil, fmt.Errorf("unsupported QNN interface %s: want %d.%d or later of %d", text(t.core), coreMajor, coreMinor, coreMajor)
	}
	if t.id != htpBackend {
		return nil, fmt.Errorf("libQnnHtp: got backend %d, want %d", t.id, htpBackend)
	}
	t.texts = t.core[1] >= messageMinor
	for _, f := range []slot{backendCreate, backendBuildID, backendFree, contextFromBinary, contextFree, graphRetrieve, graphExecute, deviceCreate, deviceFree} {
		if t.function(f) == 0 {
			return nil, fmt.Errorf("interface %s: missing function %d", text(t.core), f)
		}
	}
	return t, nil
}

// openSystem loads QnnSystem, which describes contexts.
func openSystem(dir string) (*table, error) {
	at, err := provider(dir, "QnnSystem", providersOfSystem)
	if err != nil {
		return nil, err
	}
	t := &table{at: at + systemTableAt, id: u32(at), name: dynlib.String(pointer(at + 8)), iface: version(at + 16)}
	if t.iface[0] != systemMajor {
		return nil, fmt.Errorf("unsupported QnnSystem interface %s: want %d", text(t.iface), systemMajor)
	}
	for _, f := range []slot{systemCreate, systemBinaryInfo, systemFree} {
		if t.function(f) == 0 {
			return nil, fmt.Errorf("QnnSystem %s: missing function %d", text(t.iface), f)
		}
	}
	return t, nil
}

// function returns the address of a function, or 0 if the library lacks it.
func (t *table) function(f slot) uintptr { return pointer(t.at + uintptr(f)*unsafe.Sizeof(t.at)) }

// call calls a function and converts its result to an error. Arguments are not moved while it
// runs.
//
//go:uintptrescapes
func (t *table) call(what string, f slot, args ...uintptr) error {
	at := t.function(f)
	if at == 0 {
		return &Failed{What: what, Code: errNotSupported, Text: "missing in the library"}
	}
	rc, _, _ := purego.SyscallN(at, args...)
	if rc == 0 {
		return nil
	}
	e := &Failed{What: what, Code: uint64(rc)}
	if t.texts && t.function(errorMessage) != 0 {
		out := new(uintptr)
		if rc, _, _ := purego.SyscallN(t.function(errorMessage), uintptr(e.Code), uintptr(unsafe.Pointer(out))); rc == 0 {
			e.Text = dynlib.String(*out)
		}
	}
	return e
}

// create calls a function whose last argument receives the created object.
//
//go:uintptrescapes
func (t *table) create(what string, f slot, args ...uintptr) (uintptr, error) {
	out := new(uintptr)
	var pin runtime.Pinner
	pin.Pin(out)
	defer pin.Unpin()
	err := t.call(what, f, append(args, uintptr(unsafe.Pointer(out)))...)
	if err == nil && *out == 0 {
		err = errors.New(what + " returned no object")
	}
	return *out, err
}

// free calls a function that frees an object and ignores its result.
func (t *table) free(f slot, args ...uintptr) {
	if at := t.function(f); at != 0 && args[0] != 0 {
		purego.SyscallN(at, args...)
	}
}

// Failed is an error of a QNN function.
type Failed struct {
	What string // the function
	Code uint64
	Text string // of the library; may be empty
}

// Error returns the code, the library's text, and the usual cause of the code.
func (f *Failed) Error() string {
	text := fmt.Sprintf("%s returned %d", f.What, f.Code)
	for _, more := range []string{f.Text, meaning(f.Code)} {
		if more != "" {
			text += ": " + more
		}
	}
	return text
}

// meaning returns the usual cause of an error whose own text does not help.
func meaning(code uint64) string {
	switch code {
	case 1002:
		return "the memory is full, or the device cannot map as much"
	case 1008:
		return "libraries of different versions, or an architecture that they do not know"
	case 5000, 5001:
		return "the context was written by a newer SDK, for another device, or is damaged"
	case 5005:
		return "the blob of the context is damaged, or it is for another device: fetch or compile it again"
	case 14001:
		return "the library does not know the chip"
	case 30001, 30010:
		return "these bytes are no whole context"
	}
	return ""
}
