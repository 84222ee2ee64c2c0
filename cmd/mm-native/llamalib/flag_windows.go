package llamalib

import (
	"golang.org/x/sys/windows"

	"mm-abi.org/mm/cmd/mm-native/dynlib"
)

// flagFunction returns strlen, which the library uses as its abort callback. It is called
// hundreds of times for each token from the library's own threads, where a Go function
// would take a percent or two of the time. A flag of four bytes is a C string of length 0
// or 1.
func flagFunction(*dynlib.Library) (uintptr, error) {
	f := windows.NewLazySystemDLL("ntdll.dll").NewProc("strlen")
	if err := f.Find(); err != nil {
		return 0, err
	}
	return f.Addr(), nil
}
