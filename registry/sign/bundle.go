package sign

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/opencontainers/go-digest"

	"mm-abi.org/mm/registry/sigstore"
)

// Media types and types of the formats involved.
const (
	// BundleMediaType is the Sigstore bundle v0.3, as artifact type of the
	// referrer and as media type of its layer.
	BundleMediaType = "application/vnd.dev.sigstore.bundle.v0.3+json"

	// ReleaseType is the predicate type of a release signature, as cosign sign
	// writes it. Statements of any other type are attestations.
	ReleaseType = "https://sigstore.dev/cosign/sign/v1"

	payloadType   = "application/vnd.in-toto+json"
	statementType = "https://in-toto.io/Statement/v1"
	statementV01  = "https://in-toto.io/Statement/v0.1" // same fields; older cosign
)

// maxBundle bounds a bundle and its OCI manifest, in bytes each.
const maxBundle = 1 << 20

// bundle is the part of dev.sigstore.bundle.v1.Bundle that mm writes, and reads if a key
// signed (sigstore protobuf-specs, JSON form). Package sigstore reads those with a
// certificate.
type bundle struct {
	MediaType            string    `json:"mediaType"`
	VerificationMaterial material  `json:"verificationMaterial"`
	DSSEEnvelope         *envelope `json:"dsseEnvelope"`
}

type material struct {
	PublicKey   *publicKeyHint  `json:"publicKey,omitempty"`
	Certificate json.RawMessage `json:"certificate,omitempty"`
	CertChain   json.RawMessage `json:"x509CertificateChain,omitempty"`
}

type publicKeyHint struct {
	Hint string `json:"hint"`
}

// envelope is a DSSE envelope (secure-systems-lab/dsse, envelope.md).
type envelope struct {
	Payload     string              `json:"payload"`
	PayloadType string              `json:"payloadType"`
	Signatures  []envelopeSignature `json:"signatures"`
}

type envelopeSignature struct {
	Sig string `json:"sig"`
}

// statement is an in-toto Statement v1 (in-toto/attestation, spec/v1).
type statement struct {
	Type          string          `json:"_type"`
	Subject       []resource      `json:"subject"`
	PredicateType string          `json:"predicateType"`
	Predicate     json.RawMessage `json:"predicate"`
}

type resource struct {
	Name   string            `json:"name,omitempty"`
	Digest map[string]string `json:"digest"`
}

// opened is a parsed bundle, its signature not yet checked.
type opened struct {
	hint      string           // of the public key; "" with a certificate
	certified *sigstore.Bundle // with a certificate; nil: a public key
	message   []byte           // the signed bytes of a key: the pre-authentication encoding
	signature []byte
	statement statement
}

// pae is DSSE's pre-authentication encoding (protocol.md): unlike the bare
// payload it covers the payload's type.
func pae(typ string, payload []byte) []byte {
	return fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(typ), typ, len(payload), payload)
}

// Sealer signs statements: a [*PrivateKey], or a [Certified] identity.
type Sealer interface {
	// SealerID identifies who signs, as [Signer.ID] does.
	SealerID() string
	// seal returns the bundle of a statement.
	seal(ctx context.Context, payload []byte) ([]byte, error)
}

// SealerID implements [Sealer].
func (k *PrivateKey) SealerID() string { return k.public.KeyID() }

// seal implements [Sealer].
func (k *PrivateKey) seal(_ context.Context, payload []byte) ([]byte, error) {
	sig, err := k.sign(pae(payloadType, payload))
	if err != nil {
		return nil, fmt.Errorf("signing: %w", err)
	}
	return json.Marshal(bundle{
		MediaType:            BundleMediaType,
		VerificationMaterial: material{PublicKey: &publicKeyHint{Hint: k.public.hint()}},
		DSSEEnvelope: &envelope{
			Payload:     base64.StdEncoding.EncodeToString(payload),
			PayloadType: payloadType,
			Signatures:  []envelopeSignature{{Sig: base64.StdEncoding.EncodeToString(sig)}},
		},
	})
}

// Certified signs with a key of minutes that a certificate binds to an identity.
type Certified struct{ *sigstore.Signer }

// SealerID implements [Sealer].
func (c Certified) SealerID() string { return identityID(c.Identity()) }

// seal implements [Sealer].
func (c Certified) seal(ctx context.Context, payload []byte) ([]byte, error) {
	return c.Seal(ctx, payloadType, payload)
}

// seal returns the bundle of a statement about subject.
func seal(ctx context.Context, by Sealer, subject digest.Digest, a Attestation) ([]byte, error) {
	if err := subject.Validate(); err != nil {
		return nil, fmt.Errorf("subject: %w", err)
	}
	payload, err := json.Marshal(statement{
		Type:          statementType,
		Subject:       []resource{{Digest: map[string]string{subject.Algorithm().String(): subject.Encoded()}}},
		PredicateType: a.PredicateType,
		Predicate:     a.Predicate,
	})
	if err != nil {
		return nil, fmt.Errorf("encoding the statement: %w", err)
	}
	data, err := by.seal(ctx, payload)
	if err == nil && len(data) > maxBundle {
		err = fmt.Errorf("a bundle of %d bytes is over the limit of %d", len(data), maxBundle)
	}
	return data, err
}

// open parses a bundle. Of one by a key, members that mm does not use (log entries, time
// stamps) are ignored; a duplicate member, in any case, is an error, because
// two readers could then see different bundles.
func open(data []byte) (*opened, error) {
	var b bundle
	if err := strictJSON(data, &b); err != nil {
		return nil, err
	}
	o := &opened{}
	var payload []byte
	var err error
	switch m := b.VerificationMaterial; {
	case m.PublicKey != nil && m.Certificate == nil && m.CertChain == nil:
		o.hint = m.PublicKey.Hint
		payload, err = o.keyed(b)
	case m.PublicKey == nil && (m.Certificate != nil) != (m.CertChain != nil):
		payload, err = o.certify(data)
	default:
		err = errors.New("not exactly one of public key and certificate")
	}
	if err != nil {
		return nil, err
	}
	return o, o.state(payload)
}

// state reads the statement of a payload.
func (o *opened) state(payload []byte) error {
	if err := strictJSON(payload, &o.statement); err != nil {
		return fmt.Errorf("statement: %w", err)
	}
	if t := o.statement.Type; t != statementType && t != statementV01 {
		return fmt.Errorf("statement type %q is not %s", clip(t), statementType)
	}
	return nil
}

// keyed reads a bundle by a key and returns the payload.
func (o *opened) keyed(b bundle) ([]byte, error) {
	env := b.DSSEEnvelope
	switch {
	case b.MediaType != BundleMediaType:
		return nil, fmt.Errorf("media type %q is not %s", clip(b.MediaType), BundleMediaType)
	case env == nil:
		return nil, errors.New("no DSSE envelope")
	case env.PayloadType != payloadType:
		return nil, fmt.Errorf("payload type %q is not %s", clip(env.PayloadType), payloadType)
	case len(env.Signatures) != 1:
		return nil, fmt.Errorf("%d signatures in one envelope, not 1", len(env.Signatures))
	}
	payload, err := decodeBase64(env.Payload)
	if err != nil {
		return nil, fmt.Errorf("payload: %w", err)
	}
	o.message = pae(env.PayloadType, payload)
	if o.signature, err = decodeBase64(env.Signatures[0].Sig); err != nil {
		return nil, fmt.Errorf("signature: %w", err)
	}
	return payload, nil
}

// certify reads a bundle with a certificate and returns the payload.
func (o *opened) certify(data []byte) ([]byte, error) {
	b, err := sigstore.Parse(data)
	switch {
	case err != nil:
		return nil, err
	case b.Envelope == nil:
		return nil, errors.New("no DSSE envelope")
	case b.Envelope.PayloadType != payloadType:
		return nil, fmt.Errorf("payload type %q is not %s", clip(b.Envelope.PayloadType), payloadType)
	}
	o.certified = b
	return b.Envelope.Payload, nil
}

// names reports whether the statement is about d.
func (s *statement) names(d digest.Digest) bool {
	for _, r := range s.Subject {
		if r.Digest[d.Algorithm().String()] == d.Encoded() {
			return true
		}
	}
	return false
}

// decodeBase64 accepts the standard and the URL alphabet, as DSSE and
// protobuf's JSON form both allow.
func decodeBase64(s string) ([]byte, error) {
	if data, err := base64.StdEncoding.Strict().DecodeString(s); err == nil {
		return data, nil
	}
	return base64.URLEncoding.Strict().DecodeString(s)
}

// strictJSON decodes the one JSON value in data, which must not name a member
// twice.
func strictJSON(data []byte, v any) error { return sigstore.Decode(data, v) }

// clip shortens foreign text for a message.
func clip(s string) string {
	if len(s) > 80 {
		return s[:80] + "…"
	}
	return s
}
