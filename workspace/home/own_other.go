//go:build !unix

package home

// CheckOwner relies on the system's protection of the user's folders: owners
// and modes are meaningless here.
func CheckOwner(string) error { return nil }

// Writable returns why others can change a file; modes are meaningless here.
func Writable(string) string { return "" }

// Readable reports whether others can read a file; modes are meaningless here.
func Readable(string) bool { return false }
