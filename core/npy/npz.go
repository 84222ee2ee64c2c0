package npy

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
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

// EncodeArchive writes arrays as an .npz file, deflated and sorted by their names,
// without times: the same arrays give the same bytes.
func EncodeArchive(arrays map[string]*Array) ([]byte, error) {
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for _, name := range slices.Sorted(maps.Keys(arrays)) {
		data, err := Encode(arrays[name])
		if err != nil {
			return nil, fmt.Errorf(".npz: the entry %q: %w", name, err)
		}
		w, err := z.CreateHeader(&zip.FileHeader{Name: name + ".npy", Method: zip.Deflate})
		if err == nil {
			_, err = w.Write(data)
		}
		if err != nil {
			return nil, fmt.Errorf(".npz: %w", err)
		}
	}
	if err := z.Close(); err != nil {
		return nil, fmt.Errorf(".npz: %w", err)
	}
	return out.Bytes(), nil
}
