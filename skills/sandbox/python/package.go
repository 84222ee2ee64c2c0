package python

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"crypto/sha512"
	_ "embed" // the module's files
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"mm-abi.org/mm/internal/fsx"
)

// The pinned package of MicroPython: name, version, and the digests of the npm
// archive and of the WebAssembly module in it.
const (
	Package   = "@micropython/micropython-webassembly-pyscript@" + version
	Integrity = "sha512-DnXx4EqxgkeaFESrS3uKrL7mLMk4mRTd0mMzaOd3HUSiZUOAE7t11uLnjf3ftF87N2xm4knHnWEKcVK4IYIUDA=="
	Digest    = "06338c955b03c5700aa0069015d3e392d76836ef8e2ce25bedbe59b88ccd373c" // SHA-256, hex
	version   = "1.27.0"
)

const (
	maxArchive = 4 << 20 // bytes
	moduleFile = "micropython.wasm"
	inPackage  = "package/" + moduleFile
)

// The skill that contains the interpreter: it runs a program that a model wrote.
var (
	//go:embed micropython/module.yaml
	manifest []byte
	//go:embed micropython/run.py
	runner []byte
	//go:embed micropython/README.md
	card []byte
)

// Take returns the interpreter from the package's archive, after verifying its
// digest.
func Take(archive io.Reader) ([]byte, error) {
	data, err := readAll(archive)
	if err != nil {
		return nil, err
	}
	sum := sha512.Sum512(data)
	if have := "sha512-" + base64.StdEncoding.EncodeToString(sum[:]); have != Integrity {
		return nil, fmt.Errorf("%s: got digest %s, want %s", Package, have, Integrity)
	}
	return member(data)
}

// readAll reads an archive of at most maxArchive bytes.
func readAll(archive io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(archive, maxArchive+1))
	if err == nil && len(data) > maxArchive {
		err = fmt.Errorf("archive exceeds %d bytes", maxArchive)
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", Package, err)
	}
	return data, nil
}

// member finds the interpreter in an archive.
func member(data []byte) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", Package, err)
	}
	for r := tar.NewReader(io.LimitReader(z, 4*maxArchive)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("reading %s: missing %s", Package, inPackage)
		}
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", Package, err)
		}
		if h.Name != inPackage || h.Typeflag != tar.TypeReg {
			continue
		}
		code, err := io.ReadAll(io.LimitReader(r, maxArchive))
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", Package, err)
		}
		if have := sha256.Sum256(code); hex.EncodeToString(have[:]) != Digest {
			return nil, fmt.Errorf("%s of %s: got sha256:%x, want %s", moduleFile, Package, have, Digest)
		}
		return code, nil
	}
}

// Write creates the folder of the module micropython from the package's
// archive.
func Write(dir string, archive io.Reader) error {
	code, err := Take(archive)
	if err != nil {
		return err
	}
	folder, err := fsx.Create(dir, 0o755, fsx.Options{})
	if err != nil {
		return err
	}
	defer folder.Close()
	for _, f := range []struct {
		name string
		data []byte
	}{{moduleFile, code}, {"run.py", runner}, {"README.md", card}, {"module.yaml", manifest}} {
		if err := fsx.WriteFile(filepath.Join(dir, f.name), f.data, 0o644); err != nil {
			return err
		}
	}
	return nil
}
