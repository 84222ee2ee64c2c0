package sigstore

import (
	"bytes"
	"crypto"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"time"
)

// logged checks that a log of the root holds an entry about this signature by the signer
// with the given DER form. It returns the keys of these logs, and the times that they
// promised. Entries of other logs are passed over; every entry of a known log must be sound.
func (b *Bundle) logged(r *Root, signer []byte) (logs []logKey, times []time.Time, err error) {
	seen := map[string]bool{}
	for i := range b.entries {
		e := &b.entries[i]
		at := fmt.Sprintf("%x/%d", e.logID, e.index)
		if seen[at] {
			return nil, nil, fault(CheckLogEntry, "entry %d twice", e.index)
		}
		seen[at] = true
		l, ok := r.logs[e.logID]
		if !ok {
			continue
		}
		if err := e.verify(l); err != nil {
			return nil, nil, err
		}
		if err := b.describes(e, signer); err != nil {
			return nil, nil, fault(CheckLogEntry, "entry %d: %v", e.index, err)
		}
		when := time.Unix(e.time, 0)
		if e.time != 0 && b.leaf != nil && (when.Before(b.leaf.NotBefore) || when.After(b.leaf.NotAfter)) {
			return nil, nil, fault(CheckCertificate, "the log integrated the entry at %s, the certificate is valid from %s to %s",
				when.UTC().Format(time.RFC3339), b.leaf.NotBefore.UTC().Format(time.RFC3339), b.leaf.NotAfter.UTC().Format(time.RFC3339))
		}
		logs = append(logs, l)
		if len(e.promise) > 0 && e.time != 0 { // without a promise the time is not signed
			times = append(times, when)
		}
	}
	if len(logs) == 0 {
		return nil, nil, fault(CheckLogEntry, "%d entries, none of a log that the trusted root names", len(b.entries))
	}
	return logs, times, nil
}

// body is the part of an entry's body that is compared: of the kinds hashedrekord 0.0.1
// and 0.0.2, dsse 0.0.1 and intoto 0.0.2.
type body struct {
	Version string `json:"apiVersion"`
	Kind    string `json:"kind"`
	Spec    struct {
		Data      *hexHash    `json:"data"`      // hashedrekord 0.0.1
		Signature *signatureB `json:"signature"` // hashedrekord 0.0.1

		PayloadHash *hashValue `json:"payloadHash"` // dsse 0.0.1
		Signatures  []struct {
			Signature []byte `json:"signature"`
			Verifier  []byte `json:"verifier"` // PEM
		} `json:"signatures"`

		Content *struct { // intoto 0.0.2
			Envelope struct {
				Signatures []struct {
					Sig       []byte `json:"sig"` // base64 of base64
					PublicKey []byte `json:"publicKey"`
				} `json:"signatures"`
			} `json:"envelope"`
			PayloadHash *hashValue `json:"payloadHash"`
		} `json:"content"`

		HashedRekordV2 *struct {
			Data      sum2       `json:"data"`
			Signature signature2 `json:"signature"`
		} `json:"hashedRekordV002"`
	} `json:"spec"`
}

type hexHash struct {
	Hash hashValue `json:"hash"`
}

type hashValue struct {
	Algorithm string `json:"algorithm"`
	Value     string `json:"value"` // hex
}

type signatureB struct {
	Content   []byte `json:"content"`
	PublicKey struct {
		Content []byte `json:"content"` // PEM
	} `json:"publicKey"`
}

// sum2 and signature2 are those of Rekor v2.
type sum2 struct {
	Algorithm string `json:"algorithm"`
	Digest    []byte `json:"digest"`
}

type signature2 struct {
	Content  []byte `json:"content"`
	Verifier struct {
		Certificate struct {
			Raw []byte `json:"rawBytes"`
		} `json:"x509Certificate"`
		Key struct {
			Raw []byte `json:"rawBytes"`
		} `json:"publicKey"`
	} `json:"verifier"`
}

// about is what an entry states: who signed what.
type about struct {
	signature, signer []byte
	hash              crypto.Hash
	sum               []byte
	payload           bool // the hash is that of an envelope's payload, not of the signed bytes
}

// describes reports why an entry is about another signature than the bundle's.
func (b *Bundle) describes(e *entry, signer []byte) error {
	a, err := e.about()
	if err != nil {
		return err
	}
	if !bytes.Equal(a.signature, b.signature) {
		return errors.New("it is about another signature")
	}
	if !bytes.Equal(a.signer, signer) {
		return errors.New("it is about another signer")
	}
	var want []byte
	switch {
	case b.Envelope == nil && a.payload:
		return fmt.Errorf("a %s entry about a message", e.kind)
	case b.Envelope != nil && e.kind == "hashedrekord" && e.version == "0.0.1": // other clients refuse it too
		return errors.New("a hashedrekord 0.0.1 entry about an envelope")
	case b.Envelope == nil:
		if want = b.Digest.Sum; b.Digest.Hash != a.hash {
			return fmt.Errorf("it is about a digest by %v, the bundle states one by %v", a.hash, b.Digest.Hash)
		}
	case a.payload:
		want = sum(a.hash, b.Envelope.Payload)
	default:
		want = sum(a.hash, b.Envelope.message())
	}
	if !bytes.Equal(a.sum, want) {
		return errors.New("it is about other content")
	}
	return nil
}

// about reads the body of an entry.
func (e *entry) about() (about, error) {
	var v body
	if err := Decode(e.body, &v); err != nil {
		return about{}, fmt.Errorf("body: %w", err)
	}
	if v.Kind != e.kind || v.Version != e.version {
		return about{}, fmt.Errorf("body of kind %s %s, the bundle states %s %s", clip(v.Kind), clip(v.Version), clip(e.kind), clip(e.version))
	}
	s := v.Spec
	switch {
	case v.Kind == "hashedrekord" && v.Version == "0.0.1" && s.Data != nil && s.Signature != nil:
		return s.Data.Hash.about(s.Signature.Content, s.Signature.PublicKey.Content, false)
	case v.Kind == "dsse" && v.Version == "0.0.1" && s.PayloadHash != nil && len(s.Signatures) == 1:
		return s.PayloadHash.about(s.Signatures[0].Signature, s.Signatures[0].Verifier, true)
	case v.Kind == "intoto" && v.Version == "0.0.2" && s.Content != nil && s.Content.PayloadHash != nil && len(s.Content.Envelope.Signatures) == 1:
		one := s.Content.Envelope.Signatures[0]
		sig, err := base64.StdEncoding.DecodeString(string(one.Sig))
		if err != nil {
			return about{}, fmt.Errorf("signature: %w", err)
		}
		return s.Content.PayloadHash.about(sig, one.PublicKey, true)
	case v.Kind == "hashedrekord" && v.Version == "0.0.2" && s.HashedRekordV2 != nil:
		return s.HashedRekordV2.Data.about(s.HashedRekordV2.Signature)
	}
	return about{}, fmt.Errorf("body of kind %s %s without its members, or of an unsupported kind", clip(v.Kind), clip(v.Version))
}

// about returns the statement of an entry of Rekor v1.
func (h hashValue) about(sig, signer []byte, payload bool) (about, error) {
	hash, ok := map[string]crypto.Hash{"sha256": crypto.SHA256, "sha384": crypto.SHA384, "sha512": crypto.SHA512}[strings.ToLower(h.Algorithm)]
	digest, err := hex.DecodeString(h.Value)
	block, rest := pem.Decode(signer)
	switch {
	case !ok || err != nil || len(digest) != hash.Size():
		return about{}, fmt.Errorf("invalid hash %s %q", clip(h.Algorithm), clip(h.Value))
	case block == nil || len(bytes.TrimSpace(rest)) > 0:
		return about{}, errors.New("the signer is not one PEM block")
	}
	return about{sig, block.Bytes, hash, digest, payload}, nil
}

// about returns the statement of an entry of Rekor v2.
func (h sum2) about(s signature2) (about, error) {
	hash, ok := map[string]crypto.Hash{"SHA2_256": crypto.SHA256, "SHA2_384": crypto.SHA384, "SHA2_512": crypto.SHA512}[h.Algorithm]
	if !ok || len(h.Digest) != hash.Size() {
		return about{}, fmt.Errorf("invalid digest by %s", clip(h.Algorithm))
	}
	signer := s.Verifier.Certificate.Raw
	if signer == nil {
		signer = s.Verifier.Key.Raw
	}
	return about{s.Content, signer, hash, h.Digest, false}, nil
}
