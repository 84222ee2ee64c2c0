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

	"mm-abi.org/mm/internal/fsx"
)

// maxEntries bounds the number of arrays of an archive.
const maxEntries = 4096

// ReadArchive reads the arrays of an .npz file, a ZIP of .npy files, by their
// names without .npy. size is the size of the file; the arrays may take limit
// bytes in total when unpack. An entry that is not an .npy file is an error.
func ReadArchive(r io.ReaderAt, size, limit int64) (map[string]*Array, error) {
	z, err := zip.NewReader(r, size)
	if err != nil {
		return nil, fmt.Errorf("not an .npz file: %w", err)
	}
	if len(z.File) == 0 || len(z.File) > maxEntries {
		return nil, fmt.Errorf(".npz: got %d entries, want 1 to %d", len(z.File), maxEntries)
	}
	out := make(map[string]*Array, len(z.File))
	for _, f := range z.File {
		name, ok := strings.CutSuffix(f.Name, ".npy")
		if !ok || name == "" {
			return nil, fmt.Errorf(".npz: entry %q is not an .npy file", f.Name)
		}
		if out[name] != nil {
			return nil, fmt.Errorf(".npz: duplicate entry %q", f.Name)
		}
		if f.UncompressedSize64 > uint64(limit) {
			return nil, fmt.Errorf(".npz: entry %q unpacks to %d bytes, %d remain within the limit", f.Name, f.UncompressedSize64, limit)
		}
		data, err := unpack(f)
		if err == nil {
			out[name], err = Decode(data)
		}
		if err != nil {
			return nil, fmt.Errorf(".npz: entry %q: %w", f.Name, err)
		}
		limit -= int64(len(data))
	}
	return out, nil
}

// OpenArchive reads the arrays of the .npz file at path, as [ReadArchive] does.
func OpenArchive(path string, limit int64) (arrays map[string]*Array, err error) {
	f, err := fsx.OpenRegular(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return ReadArchive(f, info.Size(), limit)
}

// unpack returns the content of an entry, at most the size in its header.
func unpack(f *zip.File) (data []byte, err error) {
	r, err := f.Open()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	// The buffer grows with the data read, whatever size the header declares.
	return io.ReadAll(io.LimitReader(r, int64(f.UncompressedSize64)))
}

// EncodeArchive encodes arrays as an .npz file, deflated and sorted by name,
// without times, so that the output is deterministic.
func EncodeArchive(arrays map[string]*Array) ([]byte, error) {
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for _, name := range slices.Sorted(maps.Keys(arrays)) {
		data, err := Encode(arrays[name])
		if err != nil {
			return nil, fmt.Errorf(".npz: entry %q: %w", name, err)
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
