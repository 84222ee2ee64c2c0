package npy

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"strings"
)

// maxEntries bounds the arrays of an archive.
const maxEntries = 4096

// ReadArchive reads the arrays of an .npz file, a ZIP of .npy files, by their
// names without .npy. size is the file's; the arrays unpacked may take limit
// bytes together. Entries that are no .npy are an error.
func ReadArchive(r io.ReaderAt, size, limit int64) (map[string]*Array, error) {
	z, err := zip.NewReader(r, size)
	if err != nil {
		return nil, fmt.Errorf("no .npz file: %w", err)
	}
	if len(z.File) == 0 || len(z.File) > maxEntries {
		return nil, fmt.Errorf(".npz of %d entries: 1 to %d are read", len(z.File), maxEntries)
	}
	out := make(map[string]*Array, len(z.File))
	for _, f := range z.File {
		name, ok := strings.CutSuffix(f.Name, ".npy")
		if !ok || name == "" {
			return nil, fmt.Errorf(".npz: the entry %q is no .npy", f.Name)
		}
		if out[name] != nil {
			return nil, fmt.Errorf(".npz: two entries %q", f.Name)
		}
		if f.UncompressedSize64 > uint64(limit) {
			return nil, fmt.Errorf(".npz: the entry %q unpacks to %d bytes, %d are left of the limit", f.Name, f.UncompressedSize64, limit)
		}
		data, err := unpacked(f)
		if err == nil {
			out[name], err = Decode(data)
		}
		if err != nil {
			return nil, fmt.Errorf(".npz: the entry %q: %w", f.Name, err)
		}
		limit -= int64(len(data))
	}
	return out, nil
}

// unpacked is what an entry unpacks to, which its header tells the size of.
func unpacked(f *zip.File) (data []byte, err error) {
	r, err := f.Open()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	// What grows grows with the bytes that are there, whatever the header says.
	return io.ReadAll(io.LimitReader(r, int64(f.UncompressedSize64)))
}
