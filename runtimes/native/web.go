package native

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"mm-abi.org/mm/internal/fsx"
)

// Web is the pinned package of ONNX Runtime Web.
type Web struct {
	Package, Integrity, License string
	Files                       map[string][]byte // by base name
}

const (
	webPackage   = "onnxruntime-web@1.30.0"
	webIntegrity = "sha512-q0y+JrrtukXSzsBWEMccVfqX25LRmosXHF+CaRJmg8pZClzcV7svNc4rKY3jL02Vb7QmRMDs1SigqR4CXAfKYQ=="
	maxWebFile   = 64 << 20 // bytes
)

// webFiles are the module for processors by WebAssembly and the files that it loads.
func webFiles() []string {
	return []string{"ort.wasm.min.mjs", "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm"}
}

// OpenWeb returns the files of ONNX Runtime Web in the npm package at a path, or in the
// one that the user's npm fetches if from is empty. The digest of the package must be the
// pinned one.
func OpenWeb(ctx context.Context, from string) (w Web, err error) {
	if from == "" {
		dir, failed := fsx.MkdirTemp("mm-web-")
		if failed != nil {
			return w, failed
		}
		defer func() { err = errors.Join(err, fsx.RemoveAll(dir)) }()
		if from, err = Pack(ctx, webPackage, dir); err != nil {
			return w, err
		}
	}
	f, err := os.Open(from)
	if err != nil {
		return w, err
	}
	defer f.Close()
	same, err := isPinned(f, webIntegrity)
	if err == nil && !same {
		err = fmt.Errorf("digest mismatch, want %s of %s", webIntegrity, webPackage)
	}
	if err != nil {
		return w, fmt.Errorf("%s: %w", from, err)
	}
	files, err := webMembers(f)
	if err != nil {
		return w, fmt.Errorf("%s: %w", from, err)
	}
	return Web{Package: webPackage, Integrity: webIntegrity, License: onnxruntimeNotice, Files: files}, nil
}

// webMembers extracts the needed files of a package.
func webMembers(r io.Reader) (map[string][]byte, error) {
	z, err := gzip.NewReader(r)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for archive := tar.NewReader(io.LimitReader(z, 2*maxTotal)); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		for _, name := range webFiles() {
			if h.Name != "package/dist/"+name || h.Typeflag != tar.TypeReg {
				continue
			}
			if h.Size > maxWebFile {
				return nil, fmt.Errorf("%s has %d bytes, limit %d", h.Name, h.Size, maxWebFile)
			}
			var b bytes.Buffer
			if _, err := io.Copy(&b, archive); err != nil {
				return nil, err
			}
			files[name] = b.Bytes()
		}
	}
	for _, name := range webFiles() {
		if files[name] == nil {
			return nil, fmt.Errorf("missing dist/%s", name)
		}
	}
	// The page has no source maps.
	for name, data := range files {
		if text, _, has := strings.Cut(string(data), "\n//# sourceMappingURL="); has && strings.HasSuffix(name, ".mjs") {
			files[name] = []byte(text + "\n")
		}
	}
	return files, nil
}
