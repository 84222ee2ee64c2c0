package dynlib

import "golang.org/x/sys/windows"

// load also looks beside the library for those that it needs.
func load(path string) (uintptr, error) {
	h, err := windows.LoadLibraryEx(path, 0, windows.LOAD_WITH_ALTERED_SEARCH_PATH)
	return uintptr(h), err
}

// loadPrivate is load: Windows finds functions by the library they are said to
// be in.
func loadPrivate(path string) (uintptr, error) { return load(path) }

func symbol(handle uintptr, name string) (uintptr, error) {
	return windows.GetProcAddress(windows.Handle(handle), name)
}
