package sigstore

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/digitorus/timestamp"
	bundlepb "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	common "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	dssepb "github.com/sigstore/protobuf-specs/gen/pb-go/dsse"
	"google.golang.org/protobuf/encoding/protojson"
)

// SignerOptions for [NewSigner]. Services, Root and Now are necessary, and Token or Getenv.
type SignerOptions struct {
	Services  *Services
	Root      *Root               // confirms each part of a signature before it is returned
	Token     string              // OpenID Connect; "": that of the environment
	Getenv    func(string) string // environment
	Now       time.Time
	Transport http.RoundTripper // nil: the usual one
}

// Signer signs with a key that exists in memory alone and that a certificate authority
// certified for minutes to the identity of a token. Each signature is stated publicly, for
// good, in a transparency log.
type Signer struct {
	services *Services
	root     *Root
	asker    asker
	key      *ecdsa.PrivateKey
	leaf     *x509.Certificate
	identity Identity
}

// NewSigner makes a key and has it certified.
func NewSigner(ctx context.Context, opt SignerOptions) (*Signer, error) {
	token := opt.Token
	if token == "" {
		var err error
		if token, err = opt.environmentToken(ctx); err != nil {
			return nil, err
		}
	}
	token = strings.TrimSpace(token)
	if err := checkToken(token, opt.Now); err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making a key: %w", err)
	}
	s := &Signer{services: opt.Services, root: opt.Root, asker: newAsker(opt.Transport), key: key}
	if err := s.certify(ctx, token); err != nil {
		return nil, fmt.Errorf("certificate authority: %w", err)
	}
	return s, nil
}

// Identity returns the identity that the certificate states.
func (s *Signer) Identity() Identity { return s.identity }

// certify asks the authority for a certificate (Fulcio's interface v2) and checks it: it is
// of this key, of an authority of the root, and in a log of certificates.
func (s *Signer) certify(ctx context.Context, token string) error {
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, s.key)
	if err != nil {
		return err
	}
	body, err := json.Marshal(map[string]any{
		"credentials":               map[string]string{"oidcIdentityToken": token},
		"certificateSigningRequest": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: csr}),
	})
	if err != nil {
		return err
	}
	data, err := s.asker.ask(ctx, question{service: "Fulcio", url: join(s.services.authority, "/api/v2/signingCert"), kind: "application/json", body: body})
	if err != nil {
		return err
	}
	return s.certified(data)
}

// certified takes the certificate from an answer of the authority.
func (s *Signer) certified(data []byte) (err error) {
	var answer struct {
		Signed struct {
			Chain struct {
				Certificates []string `json:"certificates"` // PEM
			} `json:"chain"`
		} `json:"signedCertificateEmbeddedSct"`
	}
	if err := Decode(data, &answer); err != nil {
		return fmt.Errorf("answer: %w", err)
	}
	if len(answer.Signed.Chain.Certificates) == 0 {
		return errors.New("answer without a certificate that holds its timestamp")
	}
	block, _ := pem.Decode([]byte(answer.Signed.Chain.Certificates[0]))
	if block == nil {
		return errors.New("answer: the certificate is not PEM")
	}
	b := &Bundle{}
	if err := b.chain([][]byte{block.Bytes}); err != nil {
		return err
	}
	if !s.key.PublicKey.Equal(b.leaf.PublicKey) {
		return errors.New("the certificate is of another key")
	}
	if s.identity, err = b.Claim(); err != nil {
		return err
	}
	chains, err := b.chains(s.root, b.leaf.NotBefore)
	if err != nil {
		return err
	}
	s.leaf = b.leaf
	return b.transparent(s.root, chains)
}

// Seal signs a payload as a DSSE envelope, has the signature stamped and logged, and
// returns the bundle, which the root confirms.
func (s *Signer) Seal(ctx context.Context, payloadType string, payload []byte) ([]byte, error) {
	e := &Envelope{payloadType, payload}
	digest := sum(crypto.SHA256, e.message())
	sig, err := ecdsa.SignASN1(rand.Reader, s.key, digest)
	if err != nil {
		return nil, fmt.Errorf("signing: %w", err)
	}
	stamps := &bundlepb.TimestampVerificationData{}
	for _, one := range s.services.stampers { // before the logs: what they state stays
		data, err := s.stamp(ctx, one.url, sig)
		if err != nil {
			return nil, err
		}
		stamps.Rfc3161Timestamps = append(stamps.Rfc3161Timestamps, &common.RFC3161SignedTimestamp{SignedTimestamp: data})
	}
	material := &bundlepb.VerificationMaterial{
		Content:                   &bundlepb.VerificationMaterial_Certificate{Certificate: &common.X509Certificate{RawBytes: s.leaf.Raw}},
		TimestampVerificationData: stamps,
	}
	for _, one := range s.services.logs {
		entry, err := s.record(ctx, one, record{e, digest, sig})
		if err != nil {
			return nil, err
		}
		material.TlogEntries = append(material.TlogEntries, entry)
	}
	data, err := protojson.Marshal(&bundlepb.Bundle{
		MediaType: fmt.Sprintf("%s.v0.3+json", bundleType), VerificationMaterial: material,
		Content: &bundlepb.Bundle_DsseEnvelope{DsseEnvelope: &dssepb.Envelope{Payload: payload, PayloadType: payloadType, Signatures: []*dssepb.Signature{{Sig: sig}}}},
	})
	if err != nil {
		return nil, fmt.Errorf("encoding the bundle: %w", err)
	}
	b, err := Parse(data)
	if err != nil {
		return nil, fmt.Errorf("bundle: %w", err)
	}
	if _, err := b.Verify(s.root); err != nil {
		return nil, fmt.Errorf("the trusted root does not confirm the answers of the services: %w", err)
	}
	return data, nil
}

// stamp asks an authority for the time of a signature (RFC 3161).
func (s *Signer) stamp(ctx context.Context, url string, sig []byte) ([]byte, error) {
	req := timestamp.Request{HashAlgorithm: crypto.SHA256, HashedMessage: sum(crypto.SHA256, sig), Certificates: true}
	der, err := req.Marshal()
	if err != nil {
		return nil, fmt.Errorf("time stamp: %w", err)
	}
	data, err := s.asker.ask(ctx, question{service: "time stamp authority", url: url, kind: "application/timestamp-query", body: der})
	if err != nil {
		return nil, err
	}
	b := &Bundle{signature: sig, stamps: [][]byte{data}}
	times, rejected := b.stamped(s.root)
	if len(times) == 0 {
		return nil, fault(CheckTime, "the answer of %s does not count%s", clip(url), rejected)
	}
	return data, nil
}

// join returns the address of a path below a service.
func join(base, path string) string { return strings.TrimRight(base, "/") + path }
