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

// slot is the place of a function in the table of a QnnInterface_t, which only
// grows at its end within one major version.
type slot int

// The functions that are called.
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
	systemCreate       slot = 0 // of QnnSystem's own table
	systemBinaryInfo   slot = 1
	systemFree         slot = 3
	tableAt                 = 40 // bytes into a QnnInterface_t
	systemTableAt           = 32 // and into a QnnSystemInterface_t
	coreMajor               = 2  // of the interface whose layouts are here
	coreMinor               = 10 // the first that has the functions above, but for errorMessage
	messageMinor            = 20 // the first that has that
	systemMajor             = 1
	htpBackend              = 6    // QNN's number of the HTP
	errNotSupported         = 1000 // what a function answers that a backend lacks
	providersOfBackend      = "QnnInterface_getProviders"
	providersOfSystem       = "QnnSystemInterface_getProviders"
)

// table is one library's functions.
type table struct {
	at    uintptr // of the first function
	name  string
	id    uint32 // of the backend
	core  ask.Version
	own   ask.Version // of the backend's or the system's interface
	texts bool        // it has errorMessage
}

// fileName is a library's name on this system.
func fileName(library string) string {
	switch runtime.GOOS {
	case "windows":
		return library + ".dll"
	case "darwin":
		return "lib" + library + ".dylib"
	}
	return "lib" + library + ".so"
}

// provider loads a library and takes the address of its one interface.
func provider(dir, library, entry string) (uintptr, error) {
	path := filepath.Join(dir, fileName(library))
	if info, err := os.Stat(path); err != nil {
		return 0, fmt.Errorf("%s is not in %s", fileName(library), dir)
	} else if !info.Mode().IsRegular() {
		return 0, fmt.Errorf("%s is no file", path)
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
		return 0, fmt.Errorf("%s gives no interface (%d, %d of them)", path, rc, *n)
	}
	at := *(*uintptr)(dynlib.Pointer(*list))
	if at == 0 {
		return 0, fmt.Errorf("%s gives no interface", path)
	}
	return at, nil
}

// openHTP loads the HTP's library, which emulates it on x86-64.
func openHTP(dir string) (*table, error) {
	at, err := provider(dir, "QnnHtp", providersOfBackend)
	if err != nil {
		return nil, err
	}
	t := &table{at: at + tableAt, id: u32(at), name: dynlib.String(pointer(at + 8)), core: version(at + 16), own: version(at + 28)}
	if t.core[0] != coreMajor || t.core[1] < coreMinor {
		return nil, fmt.Errorf("it has QNN's interface %s: mm knows %d.%d and later of %d", text(t.core), coreMajor, coreMinor, coreMajor)
	}
	if t.id != htpBackend {
		return nil, fmt.Errorf("libQnnHtp calls itself backend %d, the HTP is %d", t.id, htpBackend)
	}
	t.texts = t.core[1] >= messageMinor
	for _, f := range []slot{backendCreate, backendBuildID, backendFree, contextFromBinary, contextFree, graphRetrieve, graphExecute, deviceCreate, deviceFree} {
		if t.function(f) == 0 {
			return nil, fmt.Errorf("the interface %s lacks function %d", text(t.core), f)
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
	t := &table{at: at + systemTableAt, id: u32(at), name: dynlib.String(pointer(at + 8)), own: version(at + 16)}
	if t.own[0] != systemMajor {
		return nil, fmt.Errorf("it has QnnSystem's interface %s, mm knows %d", text(t.own), systemMajor)
	}
	for _, f := range []slot{systemCreate, systemBinaryInfo, systemFree} {
		if t.function(f) == 0 {
			return nil, fmt.Errorf("QnnSystem %s lacks function %d", text(t.own), f)
		}
	}
	return t, nil
}

// function is the address of a function; 0 where the library has none.
func (t *table) function(f slot) uintptr { return pointer(t.at + uintptr(f)*unsafe.Sizeof(t.at)) }

// call calls a function, and makes an error of what it answers. What is handed
// over stays where it is while it runs.
//
//go:uintptrescapes
func (t *table) call(what string, f slot, args ...uintptr) error {
	at := t.function(f)
	if at == 0 {
		return &Failed{What: what, Code: errNotSupported, Text: "the library does not have it"}
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

// made calls a function whose last argument receives what it makes.
//
//go:uintptrescapes
func (t *table) made(what string, f slot, args ...uintptr) (uintptr, error) {
	out := new(uintptr)
	var pin runtime.Pinner
	pin.Pin(out)
	defer pin.Unpin()
	err := t.call(what, f, append(args, uintptr(unsafe.Pointer(out)))...)
	if err == nil && *out == 0 {
		err = errors.New(what + " made nothing")
	}
	return *out, err
}

// free calls a function that gives something back; what it answers helps nobody.
func (t *table) free(f slot, args ...uintptr) {
	if at := t.function(f); at != 0 && args[0] != 0 {
		purego.SyscallN(at, args...)
	}
}

// Failed is what a function of QNN's answered.
type Failed struct {
	What string // the function
	Code uint64
	Text string // of the library; "": it gives none
}

// Error tells the number, the library's text, and what is known of the number.
func (f *Failed) Error() string {
	text := fmt.Sprintf("%s answers %d", f.What, f.Code)
	for _, more := range []string{f.Text, meaning(f.Code)} {
		if more != "" {
			text += ": " + more
		}
	}
	return text
}

// meaning says what mostly is behind an error whose own text does not help.
func meaning(code uint64) string {
	switch code {
	case 1002:
		return "the memory is full, or the device cannot map as much"
	case 1008:
		return "libraries of different versions, or an architecture that they do not know"
	case 5000, 5001, 5005:
		return "the context was written by a newer SDK, for another device, or is damaged"
	case 14001:
		return "the library does not know the chip"
	case 30001, 30010:
		return "these bytes are no whole context"
	}
	return ""
}
