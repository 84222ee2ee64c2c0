package evidence

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
)

// PayloadType is what a record's signature is over beside its canonical form, as
// DSSE's payload type.
const PayloadType = "application/vnd.mm-abi.device-evidence.v1+json"

// Why a signature does not show who vouches for a record.
var (
	ErrUnsigned  = errors.New("nobody has signed the record")
	ErrStranger  = errors.New("the key that signed the record is not trusted")
	ErrForged    = errors.New("the signature is not of this record")
	errSignature = fmt.Errorf("%w: it is no base64", ErrForged)
)

// Signature is who vouches for a record.
type Signature struct {
	Key       string `json:"key"`       // id of the public key: hex SHA-256 of its DER form
	Signature string `json:"signature"` // DSSE's, base64
}

// Signer signs with a private key: registry/sign.PrivateKey.
type Signer interface {
	SignPayload(typ string, payload []byte) ([]byte, error)
}

// Verifier is a public key: registry/sign.PublicKey.
type Verifier interface {
	KeyID() string
	VerifyPayload(typ string, payload, sig []byte) error
}

// Sign seals the record and signs its canonical form with a key of that id,
// in the place of an earlier signature.
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

// Vouched gives the id of the trusted key that signed the record: [ErrUnsigned],
// [ErrStranger] or [ErrForged] where none did.
func (r Record) Vouched(trusted []Verifier) (string, error) {
	s := r.Signature
	if s == nil {
		return "", ErrUnsigned
	}
	i := slices.IndexFunc(trusted, func(v Verifier) bool { return v.KeyID() == s.Key })
	if i < 0 {
		return "", fmt.Errorf("%w: %.64q", ErrStranger, s.Key)
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
