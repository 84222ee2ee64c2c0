//go:build !unix

package home

import "mm-abi.org/mm/internal/fsx"

// accessible returns an error unless files can be created in dir.
func accessible(dir string) error { return fsx.Writable(dir) }

// CheckOwner relies on the system's protection of the user's folders: owners
// and modes are meaningless here.
func CheckOwner(string) error { return nil }
