package sign

import (
	"crypto"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
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

// VerifyBlob verifies a bundle over a file with the given digests. A statement must name
// one of them as its subject.
func VerifyBlob(data []byte, digests map[crypto.Hash][]byte, opt BlobOptions) (out BlobSignature, err error) {
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
		if sum := digests[b.Digest.Hash]; sum == nil || subtle.ConstantTimeCompare(sum, b.Digest.Sum) != 1 {
			return out, fmt.Errorf("the signature is over another file, with %v %x", b.Digest.Hash, b.Digest.Sum)
		}
		return out, nil
	}
	out.Predicate, err = blobStatement(b.Envelope, digests)
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

// blobStatement returns the type of a statement about a file with one of the digests.
func blobStatement(env *sigstore.Envelope, digests map[crypto.Hash][]byte) (string, error) {
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
	for hash, sum := range digests {
		name := strings.ToLower(strings.ReplaceAll(hash.String(), "-", ""))
		for _, r := range s.Subject {
			if got, err := hex.DecodeString(r.Digest[name]); err == nil && sum != nil && subtle.ConstantTimeCompare(got, sum) == 1 {
				return s.PredicateType, nil
			}
		}
	}
	return "", errors.New("the statement is about another file")
}
