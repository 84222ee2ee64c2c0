package sign

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
)

// Algorithm names a kind of key.
type Algorithm string

// Algorithms that mm makes and accepts; cosign supports both.
const (
	P256    Algorithm = "p256"    // ECDSA over NIST P-256 with SHA-256
	Ed25519 Algorithm = "ed25519" // EdDSA, RFC 8032
)

// maxKeyFile bounds a PEM file, in bytes.
const maxKeyFile = 64 << 10

// ErrPassword reports a missing or wrong password of a private key.
var ErrPassword = errors.New("wrong or missing password")

// PublicKey verifies signatures.
type PublicKey struct {
	id        string
	ecdsa     *ecdsa.PublicKey     // nil: see verifiers
	verifiers []signature.Verifier // one must accept
}

// PrivateKey signs.
type PrivateKey struct {
	signer crypto.Signer
	public *PublicKey
}

// Generate makes a key pair and returns both halves as PEM, private first. The
// private half is PKCS #8, encrypted under password with scrypt and NaCl
// secretbox as cosign writes it ("ENCRYPTED SIGSTORE PRIVATE KEY"); the public
// half is PKIX ("PUBLIC KEY"). An empty password still encrypts, as cosign
// does; a nil one leaves the key unencrypted ("PRIVATE KEY"). The zero
// Algorithm is [P256].
func Generate(alg Algorithm, password []byte) (private, public []byte, err error) {
	var key crypto.Signer
	switch alg {
	case P256, "":
		key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case Ed25519:
		_, key, err = ed25519.GenerateKey(rand.Reader)
	default:
		err = fmt.Errorf("unknown algorithm %q", alg)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("generating a key: %w", err)
	}
	if public, err = cryptoutils.MarshalPublicKeyToPEM(key.Public()); err != nil {
		return nil, nil, fmt.Errorf("encoding the public key: %w", err)
	}
	if password == nil {
		private, err = cryptoutils.MarshalPrivateKeyToPEM(key)
	} else {
		var der []byte
		der, err = cryptoutils.MarshalPrivateKeyToEncryptedDER(key, cryptoutils.StaticPasswordFunc(password))
		private = cryptoutils.PEMEncode(cryptoutils.EncryptedSigstorePrivateKeyPEMType, der)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("encoding the private key: %w", err)
	}
	return private, public, nil
}

// LoadPrivate reads a private key from PEM: those of [Generate] and cosign, or
// plain PKCS #8 or SEC 1. password is called only for an encrypted key. If it
// is nil or returns a wrong password, the error is [ErrPassword].
func LoadPrivate(data []byte, password func() ([]byte, error)) (*PrivateKey, error) {
	block, err := onlyBlock(data)
	if err != nil {
		return nil, fmt.Errorf("reading the private key: %w", err)
	}
	encrypted := strings.HasPrefix(block.Type, "ENCRYPTED") || block.Headers["DEK-Info"] != ""
	pass := func(bool) ([]byte, error) {
		if password == nil {
			return nil, errors.New("the key is encrypted")
		}
		pw, err := password()
		if err == nil && pw == nil {
			pw = []byte{}
		}
		return pw, err
	}
	key, err := cryptoutils.UnmarshalPEMToPrivateKey(data, pass)
	switch {
	case err != nil && encrypted:
		return nil, fmt.Errorf("reading the private key: %w: %w", ErrPassword, err)
	case err != nil:
		return nil, fmt.Errorf("reading the private key: %w", err)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("reading the private key: %T cannot sign", key)
	}
	public, err := newPublic(signer.Public())
	if err != nil {
		return nil, fmt.Errorf("reading the private key: %w", err)
	}
	return &PrivateKey{signer: signer, public: public}, nil
}

// LoadPublic reads a public key from PEM ("PUBLIC KEY", PKIX).
func LoadPublic(data []byte) (*PublicKey, error) {
	if _, err := onlyBlock(data); err != nil {
		return nil, fmt.Errorf("reading the public key: %w", err)
	}
	key, err := cryptoutils.UnmarshalPEMToPublicKey(data)
	if err != nil {
		return nil, fmt.Errorf("reading the public key: %w", err)
	}
	public, err := newPublic(key)
	if err != nil {
		return nil, fmt.Errorf("reading the public key: %w", err)
	}
	return public, nil
}

// onlyBlock returns the one PEM block of a key file.
func onlyBlock(data []byte) (*pem.Block, error) {
	if len(data) > maxKeyFile {
		return nil, fmt.Errorf("key file too large: got %d bytes", len(data))
	}
	block, rest := pem.Decode(data)
	if block == nil {
		return nil, errors.New("no PEM block found")
	}
	if next, _ := pem.Decode(rest); next != nil {
		return nil, errors.New("more than one PEM block")
	}
	return block, nil
}

// newPublic accepts the algorithms of this package only, so that the signer
// never chooses the algorithm.
func newPublic(key crypto.PublicKey) (*PublicKey, error) {
	var verifiers []signature.Verifier
	switch k := key.(type) {
	case *ecdsa.PublicKey:
		if k.Curve != elliptic.P256() {
			return nil, fmt.Errorf("curve %s is not supported, only P-256", k.Curve.Params().Name)
		}
		id, err := keyID(key)
		return &PublicKey{id: id, ecdsa: k}, err
	case ed25519.PublicKey:
		// cosign sign 3.1 writes Ed25519ph for a file key (RFC 8032 §5.1),
		// which its own verify then refuses. The two are domain-separated:
		// accepting both lets no signature pass for another.
		prehashed, err := signature.LoadED25519phVerifier(k)
		if err != nil {
			return nil, err
		}
		verifiers = append(verifiers, prehashed)
	default:
		return nil, fmt.Errorf("%T is not supported, only ECDSA P-256 and Ed25519", key)
	}
	id, err := keyID(key)
	if err != nil {
		return nil, err
	}
	verifier, err := signature.LoadVerifier(key, crypto.SHA256)
	if err != nil {
		return nil, err
	}
	return &PublicKey{id: id, verifiers: append(verifiers, verifier)}, nil
}

// keyID is the SHA-256 of the key's DER SubjectPublicKeyInfo in hex.
func keyID(key crypto.PublicKey) (string, error) {
	der, err := cryptoutils.MarshalPublicKeyToDER(key)
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:]), err
}

// Public returns the half that verifies.
func (k *PrivateKey) Public() *PublicKey { return k.public }

// KeyID identifies the key: the SHA-256 of its DER SubjectPublicKeyInfo, in
// lower-case hex.
func (k *PublicKey) KeyID() string { return k.id }

// SignPayload signs a payload of one of mm's own types, as a DSSE envelope
// does, so that a signature of one kind of record is invalid for another, and
// for an artifact.
func (k *PrivateKey) SignPayload(typ string, payload []byte) ([]byte, error) {
	if typ == payloadType {
		return nil, errors.New("signing: statements about artifacts are made by Sign")
	}
	return k.sign(pae(typ, payload))
}

// VerifyPayload checks a signature that [PrivateKey.SignPayload] made.
func (k *PublicKey) VerifyPayload(typ string, payload, sig []byte) error {
	return k.verify(pae(typ, payload), sig)
}

// hint is the key's id as bundles spell it: base64 of the same hash.
func (k *PublicKey) hint() string {
	sum, _ := hex.DecodeString(k.id)
	return base64.StdEncoding.EncodeToString(sum)
}

// errSignature reports a signature by another key.
var errSignature = errors.New("invalid signature")

// verify checks sig over message. An ECDSA signature must be DER (RFC 3279
// §2.2.3): sigstore's verifier also accepts the two numbers concatenated,
// which would give one signature two forms.
func (k *PublicKey) verify(message, sig []byte) error {
	if k.ecdsa != nil {
		sum := sha256.Sum256(message)
		if !ecdsa.VerifyASN1(k.ecdsa, sum[:], sig) {
			return errSignature
		}
		return nil
	}
	var err error
	for _, v := range k.verifiers {
		if err = v.VerifySignature(bytes.NewReader(sig), bytes.NewReader(message)); err == nil {
			return nil
		}
	}
	return err
}

// sign signs message without randomness: with no source, crypto/ecdsa derives
// the nonce from key and message (RFC 6979).
func (k *PrivateKey) sign(message []byte) ([]byte, error) {
	if _, ok := k.signer.(ed25519.PrivateKey); ok {
		return k.signer.Sign(nil, message, crypto.Hash(0))
	}
	sum := sha256.Sum256(message)
	return k.signer.Sign(nil, sum[:], crypto.SHA256)
}
