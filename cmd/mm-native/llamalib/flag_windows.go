package llamalib

import (
	"golang.org/x/sys/windows"

	"mm-abi.org/mm/cmd/mm-native/dynlib"
)

// flagFunction is strlen, which the library calls as its abort callback,
// hundreds of times for each token and from its own threads, where a function
// of Go's would cost a percent or two of the time: the C string at a flag of
// four bytes has the length 0 for a 0 and 1 for a 1.
func flagFunction(*dynlib.Library) (uintptr, error) {
	f := windows.NewLazySystemDLL("ntdll.dll").NewProc("strlen")
	if err := f.Find(); err != nil {
		return 0, err
	}
	return f.Addr(), nil
}
