package workspace

import (
	"context"
	"crypto"
	"encoding/hex"
	"fmt"
	"hash"
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
// sha384, sha512). It
// uses no network.
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
	digests, err := blobDigests(ctx, arg)
	if err != nil {
		return out, err
	}
	if out, err = sign.VerifyBlob(data, digests, o); err != nil {
		return out, fmt.Errorf("%s refused: %s: %w", arg, opt.Bundle, err)
	}
	return out, nil
}

// blobDigests returns the digests of a file, or the one that arg states.
func blobDigests(ctx context.Context, arg string) (map[crypto.Hash][]byte, error) {
	for name, h := range map[string]crypto.Hash{"sha256:": crypto.SHA256, "sha384:": crypto.SHA384, "sha512:": crypto.SHA512} {
		digits, ok := strings.CutPrefix(arg, name)
		if sum, err := hex.DecodeString(digits); ok && err == nil && len(sum) == h.Size() {
			if _, err := os.Lstat(arg); err != nil {
				return map[crypto.Hash][]byte{h: sum}, nil
			}
		}
	}
	f, err := os.Open(arg)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	hashes := map[crypto.Hash]hash.Hash{}
	var all []io.Writer
	for _, h := range []crypto.Hash{crypto.SHA256, crypto.SHA384, crypto.SHA512} {
		hashes[h] = h.New()
		all = append(all, hashes[h])
	}
	if _, err := io.Copy(io.MultiWriter(all...), fsx.Reader{Context: ctx, R: f}); err != nil {
		return nil, err
	}
	sums := map[crypto.Hash][]byte{}
	for h, w := range hashes {
		sums[h] = w.Sum(nil)
	}
	return sums, nil
}
