package sigstore

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"time"

	common "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	trustroot "github.com/sigstore/protobuf-specs/gen/pb-go/trustroot/v1"
)

// Limits of a trusted root.
const (
	MaxRoot      = 1 << 20 // bytes
	maxInstances = 128     // logs or authorities of one kind
	maxChain     = 16      // certificates of one authority
)

// rootType is the prefix of the media types of trusted roots that differ in nothing read here.
const rootType = "application/vnd.dev.sigstore.trustedroot"

// Root lists the authorities and logs whose statements count, with the time in which
// each does.
type Root struct {
	Digest      string // SHA-256 of the file in hex
	authorities []authority
	stampers    []authority
	logs        map[string]logKey // of signatures, by log id
	ctLogs      map[string]logKey // of certificates
}

// authority is a chain of certificates, without the one that it issues.
type authority struct {
	leaf          *x509.Certificate // of an authority for time stamps, if the root names it
	intermediates []*x509.Certificate
	root          *x509.Certificate
	valid         window
}

// logKey is the key of a log.
type logKey struct {
	host  string // of its base URL; "" if the root does not state it
	key   crypto.PublicKey
	valid window
}

// window is a time range; both ends are part of it. Zero: no end.
type window struct{ start, end time.Time }

// holds reports whether t is in the window.
func (w window) holds(t time.Time) bool {
	return !t.Before(w.start) && (w.end.IsZero() || !t.After(w.end))
}

// String returns the window for a message.
func (w window) String() string {
	if w.end.IsZero() {
		return "from " + w.start.UTC().Format(time.RFC3339)
	}
	return w.start.UTC().Format(time.RFC3339) + " to " + w.end.UTC().Format(time.RFC3339)
}

// ParseRoot reads a trusted root (trusted_root.json).
func ParseRoot(data []byte) (*Root, error) {
	if len(data) > MaxRoot {
		return nil, fmt.Errorf("trusted root: got %d bytes, want at most %d", len(data), MaxRoot)
	}
	var pb trustroot.TrustedRoot
	if err := decodeProto(data, &pb); err != nil {
		return nil, fmt.Errorf("trusted root: %w", err)
	}
	switch pb.GetMediaType() {
	case rootType + "+json;version=0.1", rootType + ".v0.1+json", rootType + ".v0.2+json":
	default:
		return nil, fmt.Errorf("trusted root: media type %q is unknown", clip(pb.GetMediaType()))
	}
	sum := sha256.Sum256(data)
	r := &Root{Digest: hex.EncodeToString(sum[:])}
	var err error
	if r.authorities, err = authorities(pb.GetCertificateAuthorities(), false); err != nil {
		return nil, fmt.Errorf("trusted root: certificateAuthorities%w", err)
	}
	if r.stampers, err = authorities(pb.GetTimestampAuthorities(), true); err != nil {
		return nil, fmt.Errorf("trusted root: timestampAuthorities%w", err)
	}
	if r.logs, err = logKeys(pb.GetTlogs()); err != nil {
		return nil, fmt.Errorf("trusted root: tlogs%w", err)
	}
	if r.ctLogs, err = logKeys(pb.GetCtlogs()); err != nil {
		return nil, fmt.Errorf("trusted root: ctlogs%w", err)
	}
	return r, nil
}

// authorities reads the authorities of one kind. An error begins with the index.
func authorities(list []*trustroot.CertificateAuthority, stamps bool) ([]authority, error) {
	if len(list) > maxInstances {
		return nil, fmt.Errorf(": got %d, want at most %d", len(list), maxInstances)
	}
	var out []authority
	for i, ca := range list {
		chain := ca.GetCertChain().GetCertificates()
		if len(chain) == 0 || len(chain) > maxChain {
			return nil, fmt.Errorf("[%d]: got %d certificates, want 1 to %d", i, len(chain), maxChain)
		}
		a := authority{valid: timeRange(ca.GetValidFor())}
		for j, c := range chain {
			cert, err := x509.ParseCertificate(c.GetRawBytes())
			switch {
			case err != nil:
				return nil, fmt.Errorf("[%d]: certificate %d: %w", i, j, err)
			case stamps && j == 0 && !cert.IsCA:
				a.leaf = cert
			case j == len(chain)-1:
				a.root = cert
			default:
				a.intermediates = append(a.intermediates, cert)
			}
		}
		if a.root == nil {
			return nil, fmt.Errorf("[%d]: no root certificate", i)
		}
		out = append(out, a)
	}
	return out, nil
}

// logKeys reads the keys of logs, by log id. An error begins with the index.
func logKeys(list []*trustroot.TransparencyLogInstance) (map[string]logKey, error) {
	if len(list) > maxInstances {
		return nil, fmt.Errorf(": got %d, want at most %d", len(list), maxInstances)
	}
	logs := map[string]logKey{}
	for i, l := range list {
		id := string(l.GetLogId().GetKeyId())
		valid := l.GetPublicKey().GetValidFor()
		key, err := publicKey(l.GetPublicKey())
		_, twice := logs[id]
		switch {
		case l.GetHashAlgorithm() != common.HashAlgorithm_SHA2_256:
			return nil, fmt.Errorf("[%d]: hash algorithm: got %s, want SHA2_256", i, l.GetHashAlgorithm())
		case id == "":
			return nil, fmt.Errorf("[%d]: no log id", i)
		case twice:
			return nil, fmt.Errorf("[%d]: duplicate log id", i)
		case err != nil:
			return nil, fmt.Errorf("[%d]: %w", i, err)
		case valid.GetStart() == nil:
			return nil, fmt.Errorf("[%d]: the key has no start of validity", i)
		}
		one := logKey{key: key, valid: timeRange(valid)}
		if u, err := url.Parse(l.GetBaseUrl()); err == nil {
			one.host = u.Hostname()
		}
		logs[id] = one
	}
	return logs, nil
}

// publicKey reads the key of a log, whose kind must be the stated one.
func publicKey(pb *common.PublicKey) (crypto.PublicKey, error) {
	raw := pb.GetRawBytes()
	switch pb.GetKeyDetails() {
	//lint:ignore SA1019 the staging log of certificates has this kind
	case common.PublicKeyDetails_PKCS1_RSA_PKCS1V5:
		return x509.ParsePKCS1PublicKey(raw)
	case common.PublicKeyDetails_PKIX_ECDSA_P256_SHA_256, common.PublicKeyDetails_PKIX_ECDSA_P384_SHA_384, common.PublicKeyDetails_PKIX_ECDSA_P521_SHA_512:
		return pkix[*ecdsa.PublicKey](raw)
	case common.PublicKeyDetails_PKIX_RSA_PKCS1V15_2048_SHA256, common.PublicKeyDetails_PKIX_RSA_PKCS1V15_3072_SHA256, common.PublicKeyDetails_PKIX_RSA_PKCS1V15_4096_SHA256:
		return pkix[*rsa.PublicKey](raw)
	case common.PublicKeyDetails_PKIX_ED25519:
		return pkix[ed25519.PublicKey](raw)
	}
	return nil, fmt.Errorf("key of kind %s is not supported", pb.GetKeyDetails())
}

// pkix reads a public key of one type.
func pkix[K crypto.PublicKey](raw []byte) (crypto.PublicKey, error) {
	key, err := x509.ParsePKIXPublicKey(raw)
	if err != nil {
		return nil, fmt.Errorf("public key: %w", err)
	}
	if _, ok := key.(K); !ok {
		return nil, errors.New("the public key is of another kind than stated")
	}
	return key, nil
}

// timeRange converts a range.
func timeRange(r *common.TimeRange) (w window) {
	if r.GetStart() != nil {
		w.start = r.GetStart().AsTime()
	}
	if r.GetEnd() != nil {
		w.end = r.GetEnd().AsTime()
	}
	return w
}
