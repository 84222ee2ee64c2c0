package evidence

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
)

// PayloadType is the DSSE payload type of a record's signature.
const PayloadType = "application/vnd.mm-abi.device-evidence.v1+json"

// The reasons why a record is not signed by a trusted key.
var (
	ErrUnsigned  = errors.New("record not signed")
	ErrUntrusted = errors.New("key of the record not trusted")
	ErrForged    = errors.New("invalid signature")
	errSignature = fmt.Errorf("%w: not base64", ErrForged)
)

// Signature is the signature of a record.
type Signature struct {
	Key       string `json:"key"`       // ID of the public key: hex SHA-256 of its DER form
	Signature string `json:"signature"` // DSSE, base64
}

// Signer signs with a private key, such as registry/sign.PrivateKey.
type Signer interface {
	SignPayload(typ string, payload []byte) ([]byte, error)
}

// Verifier verifies with a public key, such as registry/sign.PublicKey.
type Verifier interface {
	KeyID() string
	VerifyPayload(typ string, payload, sig []byte) error
}

// Sign seals the record and signs its canonical form with the key with that ID. It replaces
// an earlier signature.
func (r *Record) Sign(key Signer, id string) error {
	if err := r.Seal(); err != nil {
		return err
	}
	payload, err := r.Canonical()
	if err != nil {
		return err
	}
	sig, err := key.SignPayload(PayloadType, payload)
	if err != nil {
		return fmt.Errorf("signing evidence: %w", err)
	}
	r.Signature = &Signature{id, base64.StdEncoding.EncodeToString(sig)}
	return nil
}

// SignedBy returns the ID of the trusted key that signed the record, or [ErrUnsigned],
// [ErrUntrusted] or [ErrForged].
func (r Record) SignedBy(trusted []Verifier) (string, error) {
	s := r.Signature
	if s == nil {
		return "", ErrUnsigned
	}
	i := slices.IndexFunc(trusted, func(v Verifier) bool { return v.KeyID() == s.Key })
	if i < 0 {
		return "", fmt.Errorf("%w: %.64q", ErrUntrusted, s.Key)
	}
	sig, err := base64.StdEncoding.DecodeString(s.Signature)
	if err != nil {
		return "", errSignature
	}
	payload, err := r.Canonical()
	if err != nil {
		return "", err
	}
	if err := trusted[i].VerifyPayload(PayloadType, payload, sig); err != nil {
		return "", fmt.Errorf("%w: %w", ErrForged, err)
	}
	return s.Key, nil
}
