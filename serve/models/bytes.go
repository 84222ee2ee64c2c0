package models

import "mm-abi.org/mm/builds"

// Bytes returns the size of the files of a build, of each part in its largest format.
func Bytes(b *builds.Build) (sum int64) {
	for _, part := range b.Assembly.Parts() {
		var largest int64
		for _, paths := range part.Files {
			var size int64
			for _, path := range paths {
				size += fileSize(b.Files, path)
			}
			largest = max(largest, size)
		}
		sum += largest
	}
	return sum
}

// fileSize returns the size of a file, or 0 if it is absent, which the load reports.
func fileSize(files builds.Files, path string) int64 {
	f, err := files.Open(path)
	if err != nil {
		return 0
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0
	}
	return info.Size()
}
