package workspace

import (
	"context"
	"crypto"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"strings"

	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/registry/sign"
	"mm-abi.org/mm/registry/sigstore"
	"mm-abi.org/mm/workspace/trust"
)

// BlobOptions for [VerifyBlob]. Root or Key is necessary.
type BlobOptions struct {
	Bundle   string               // file
	Root     string               // file; a signature with a certificate needs it
	Identity sign.TrustedIdentity // of the certificate
	Key      string               // file; "": the identity
}

// VerifyBlob verifies a bundle over a file, or over content with the digest sha256:HEX (or
// sha384, sha512). It uses no network, and hashes the file only as the bundle states.
func VerifyBlob(ctx context.Context, arg string, opt BlobOptions) (out sign.BlobSignature, err error) {
	data, err := fsx.ReadFile(opt.Bundle, sigstore.MaxBundle)
	if err != nil {
		return out, err
	}
	o := sign.BlobOptions{Identity: opt.Identity}
	if opt.Root != "" {
		root, err := fsx.ReadFile(opt.Root, sigstore.MaxRoot)
		if err != nil {
			return out, err
		}
		if o.Root, err = sigstore.ParseRoot(root); err != nil {
			return out, fmt.Errorf("%s: %w", opt.Root, err)
		}
	}
	if opt.Key != "" {
		if o.Key, err = fsx.ReadFile(opt.Key, trust.MaxKey); err != nil {
			return out, err
		}
	}
	file, err := openBlob(arg)
	if err != nil {
		return out, err
	}
	defer file.Close()
	digest := func(h crypto.Hash) ([]byte, error) { return file.digest(ctx, h) }
	if out, err = sign.VerifyBlob(data, digest, o); err != nil {
		return out, fmt.Errorf("%s refused: %s: %w", arg, opt.Bundle, err)
	}
	return out, nil
}

// blob is a file, or content of which one digest is known.
type blob struct {
	*os.File // nil: content
	hash     crypto.Hash
	sum      []byte
}

// openBlob opens a file, or reads the digest that arg states.
func openBlob(arg string) (blob, error) {
	for name, h := range map[string]crypto.Hash{"sha256:": crypto.SHA256, "sha384:": crypto.SHA384, "sha512:": crypto.SHA512} {
		digits, ok := strings.CutPrefix(arg, name)
		if sum, err := hex.DecodeString(digits); ok && err == nil && len(sum) == h.Size() {
			if _, err := os.Lstat(arg); err != nil {
				return blob{hash: h, sum: sum}, nil
			}
		}
	}
	f, err := fsx.OpenRegular(arg)
	return blob{File: f}, err
}

// digest returns the digest by a hash; nil if it is not known.
func (b blob) digest(ctx context.Context, h crypto.Hash) ([]byte, error) {
	if b.File == nil {
		if h == b.hash {
			return b.sum, nil
		}
		return nil, nil
	}
	if _, err := b.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	w := h.New()
	if _, err := io.Copy(w, fsx.Reader{Context: ctx, R: b.File}); err != nil {
		return nil, err
	}
	return w.Sum(nil), nil
}
