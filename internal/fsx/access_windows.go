package fsx

// Accessible returns an error unless files can be created in the folder dir.
func Accessible(dir string) error { return Writable(dir) }
