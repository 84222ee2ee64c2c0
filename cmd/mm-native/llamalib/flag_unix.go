//go:build unix

package llamalib

import "mm-abi.org/mm/cmd/mm-native/dynlib"

// flagFunction returns strlen, which the library uses as its abort callback. It is called
// hundreds of times for each token from the library's own threads, where a Go function
// would take a percent or two of the time. A flag of four bytes is a C string of length 0
// or 1.
func flagFunction(l *dynlib.Library) (uintptr, error) { return l.Symbol("strlen") }
