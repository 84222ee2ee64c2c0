package sign

import (
	"bytes"
	"crypto"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sigstore/sigstore/pkg/cryptoutils"

	"mm-abi.org/mm/registry/sigstore"
)

// BlobOptions selects the signer of a file: an identity that the root confirms,
// or a key, with which the root is optional.
type BlobOptions struct {
	Root     *sigstore.Root
	Identity TrustedIdentity // without the name of a root
	Key      []byte          // PEM; nil: the identity
}

// BlobSignature is a verified signature over a file.
type BlobSignature struct {
	Issuer, Subject string // of an identity
	Key             string // id of a key
	Predicate       string // type of the statement; "": the file itself is signed
	Times           []time.Time
}

// VerifyBlob verifies a bundle over a file. A statement must name the file as its subject.
// digest returns the file's digest, or nil if it is not known by this hash; it is called
// once the signature is verified.
func VerifyBlob(data []byte, digest func(crypto.Hash) ([]byte, error), opt BlobOptions) (out BlobSignature, err error) {
	b, err := sigstore.Parse(data)
	if err != nil {
		return out, err
	}
	if opt.Key != nil {
		key, err := cryptoutils.UnmarshalPEMToPublicKey(opt.Key)
		if err != nil {
			return out, fmt.Errorf("reading the public key: %w", err)
		}
		if out.Key, err = keyID(key); err != nil {
			return out, err
		}
		if err := b.VerifyKey(key, opt.Root); err != nil {
			return out, err
		}
	} else if err := out.certified(b, opt); err != nil {
		return out, err
	}
	if b.Envelope == nil {
		sum, err := digest(b.Digest.Hash)
		if err != nil {
			return out, err
		}
		if sum == nil || !bytes.Equal(sum, b.Digest.Sum) {
			return out, fmt.Errorf("the signature is over another file, with %v %x", b.Digest.Hash, b.Digest.Sum)
		}
		return out, nil
	}
	out.Predicate, err = blobStatement(b.Envelope, digest)
	return out, err
}

// certified verifies a bundle by the identity of opt.
func (out *BlobSignature) certified(b *sigstore.Bundle, opt BlobOptions) error {
	if opt.Root == nil {
		return errors.New("a signature with a certificate needs a trusted root")
	}
	pattern, err := compileSubject(opt.Identity.Pattern)
	if err != nil {
		return &PolicyError{"identity.subject_pattern", err.Error()}
	}
	want := identity{TrustedIdentity: opt.Identity, pattern: pattern}
	v, err := b.Verify(opt.Root)
	if err != nil {
		return err
	}
	out.Issuer, out.Subject, out.Times = v.Issuer, v.Subject, v.Times
	if !want.matches(v.Identity) {
		return fmt.Errorf("signed by %q of %q, want %q of %q", clip(v.Subject), clip(v.Issuer), opt.Identity.Subject+opt.Identity.Pattern, opt.Identity.Issuer)
	}
	return nil
}

// blobStatement returns the type of a statement about a file.
func blobStatement(env *sigstore.Envelope, digest func(crypto.Hash) ([]byte, error)) (string, error) {
	var s statement
	if env.PayloadType != payloadType {
		return "", fmt.Errorf("payload type %q is not %s", clip(env.PayloadType), payloadType)
	}
	if err := strictJSON(env.Payload, &s); err != nil {
		return "", fmt.Errorf("statement: %w", err)
	}
	if s.Type != statementType && s.Type != statementV01 {
		return "", fmt.Errorf("statement type %q is not %s", clip(s.Type), statementType)
	}
	for _, hash := range []crypto.Hash{crypto.SHA256, crypto.SHA384, crypto.SHA512} {
		name := strings.ToLower(strings.ReplaceAll(hash.String(), "-", ""))
		if !slices.ContainsFunc(s.Subject, func(r resource) bool { return r.Digest[name] != "" }) {
			continue
		}
		sum, err := digest(hash)
		if err != nil {
			return "", err
		}
		for _, r := range s.Subject {
			if got, err := hex.DecodeString(r.Digest[name]); err == nil && sum != nil && bytes.Equal(got, sum) {
				return s.PredicateType, nil
			}
		}
	}
	return "", errors.New("the statement is about another file")
}
