//go:build unix

package qnnlib

import (
	"bytes"
	"fmt"
	"os"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"
)

// printer returns libc's vsnprintf, which formats C's format strings.
func printer() uintptr {
	at, err := purego.Dlsym(purego.RTLD_DEFAULT, "vsnprintf")
	if err != nil {
		return 0
	}
	return at
}

// logCallback returns a QnnLog_Callback_t that prints on standard error. The number of callbacks
// of a process is limited, so it is created once.
var logCallback = sync.OnceValue(func() uintptr {
	print := printer()
	if print == 0 {
		return 0
	}
	return purego.NewCallback(func(format uintptr, level uint32, _ uint64, args uintptr) uintptr {
		line := make([]byte, 512)
		purego.SyscallN(print, uintptr(unsafe.Pointer(&line[0])), uintptr(len(line)), format, args)
		if end := bytes.IndexByte(line, 0); end >= 0 {
			line = line[:end]
		}
		fmt.Fprintf(os.Stderr, "qnn (level %d): %s\n", level, bytes.TrimSpace(line))
		return 0
	})
})
