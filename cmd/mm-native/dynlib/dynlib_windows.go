package dynlib

import "golang.org/x/sys/windows"

// load also searches the library's folder for its dependencies.
func load(path string) (uintptr, error) {
	h, err := windows.LoadLibraryEx(path, 0, windows.LOAD_WITH_ALTERED_SEARCH_PATH)
	return uintptr(h), err
}

// loadPrivate is load: Windows binds functions to the library that they are imported from.
func loadPrivate(path string) (uintptr, error) { return load(path) }

func symbol(handle uintptr, name string) (uintptr, error) {
	return windows.GetProcAddress(windows.Handle(handle), name)
}
