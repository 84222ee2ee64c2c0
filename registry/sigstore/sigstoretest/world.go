// Package sigstoretest makes signatures as Fulcio, Rekor and an authority for time stamps
// would, in their wire formats, and the trusted root that names its authorities and logs.
// Each part can be made wrong, so that every check of a verifier has a case that fails.
package sigstoretest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"math/big"
	"time"
)

// m is a JSON object.
type m = map[string]any

// World is a private Sigstore: a certificate authority, a log of certificates, logs of
// signatures of both versions, and an authority for time stamps.
type World struct {
	t     test
	Start time.Time // from which everything counts

	root, issuing, stamping, stampLeaf *x509.Certificate
	rootKey, issuer, stamper, stampKey crypto.Signer
	certificates, log, tiles           crypto.Signer // keys of the logs
}

// test is the part of testing.TB that a world needs.
type test interface {
	Helper()
	Fatal(...any)
}

// The names of the logs.
const (
	LogHost   = "rekor.test"
	TilesHost = "tiles.test"
)

// New returns a world that counts from a year before now.
func New(t test, now time.Time) *World {
	w := &World{t: t, Start: now.AddDate(-1, 0, 0).UTC().Truncate(time.Second)}
	rootKey := w.key()
	w.issuer, w.stampKey, w.certificates, w.log = w.key(), w.key(), w.key(), w.key()
	_, tiles, err := ed25519.GenerateKey(rand.Reader)
	w.check(err)
	w.tiles = tiles
	w.root = w.certificate(w.authority("root"), nil, rootKey.Public(), rootKey)
	w.issuing = w.certificate(w.authority("issuing", x509.ExtKeyUsageCodeSigning), w.root, w.issuer.Public(), rootKey)
	w.rootKey = rootKey
	w.Restamp(x509.ExtKeyUsageTimeStamping)
	return w
}

// Restamp issues the authority for time stamps a certificate of an issuer with these uses; none
// means all.
func (w *World) Restamp(uses ...x509.ExtKeyUsage) {
	w.stamper = w.key()
	w.stamping = w.certificate(w.authority("stamping", uses...), w.root, w.stamper.Public(), w.rootKey)
	usage, err := usageExtension()
	w.check(err)
	w.stampLeaf = w.certificate(&x509.Certificate{
		Subject: pkix.Name{CommonName: "stamps"}, KeyUsage: x509.KeyUsageDigitalSignature, ExtraExtensions: []pkix.Extension{usage},
		NotBefore: w.Start, NotAfter: w.Start.AddDate(10, 0, 0),
	}, w.stamping, w.stampKey.Public(), w.stamper)
}

// authority returns the template of an authority's certificate.
func (w *World) authority(name string, usage ...x509.ExtKeyUsage) *x509.Certificate {
	return &x509.Certificate{
		Subject: pkix.Name{Organization: []string{"test"}, CommonName: name}, IsCA: true, BasicConstraintsValid: true, ExtKeyUsage: usage,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: w.Start, NotAfter: w.Start.AddDate(10, 0, 0),
	}
}

// key returns a new key.
func (w *World) key() *ecdsa.PrivateKey {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	w.check(err)
	return k
}

// check ends the test on an error.
func (w *World) check(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// certificate signs a certificate; a nil parent means itself.
func (w *World) certificate(c, parent *x509.Certificate, key crypto.PublicKey, by crypto.Signer) *x509.Certificate {
	w.t.Helper()
	if parent == nil {
		parent = c
	}
	if c.SerialNumber == nil {
		serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 100))
		w.check(err)
		c.SerialNumber = serial
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, key, by)
	w.check(err)
	out, err := x509.ParseCertificate(der)
	w.check(err)
	return out
}

// Root returns the trusted root after edits of its JSON.
func (w *World) Root(edits ...func(root map[string]any)) []byte {
	from := m{"start": w.Start.Format(time.RFC3339)}
	chain := func(list ...*x509.Certificate) m {
		var certs []any
		for _, c := range list {
			certs = append(certs, m{"rawBytes": c.Raw})
		}
		return m{"certificates": certs}
	}
	log := func(host string, key crypto.Signer, details string) m {
		der, err := x509.MarshalPKIXPublicKey(key.Public())
		w.check(err)
		return m{
			"baseUrl": "https://" + host, "hashAlgorithm": "SHA2_256", "logId": m{"keyId": w.logID(key)},
			"publicKey": m{"rawBytes": der, "keyDetails": details, "validFor": from},
		}
	}
	root := m{
		"mediaType":              "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
		"tlogs":                  []any{log(LogHost, w.log, "PKIX_ECDSA_P256_SHA_256"), log(TilesHost, w.tiles, "PKIX_ED25519")},
		"ctlogs":                 []any{log("ct.test", w.certificates, "PKIX_ECDSA_P256_SHA_256")},
		"certificateAuthorities": []any{m{"subject": m{"organization": "test", "commonName": "root"}, "uri": "https://fulcio.test", "certChain": chain(w.issuing, w.root), "validFor": from}},
		"timestampAuthorities":   []any{m{"subject": m{"organization": "test", "commonName": "stamps"}, "uri": "https://tsa.test", "certChain": chain(w.stampLeaf, w.stamping, w.root), "validFor": from}},
	}
	return edited(w, root, edits)
}

// edited encodes a value after edits of its JSON.
func edited(w *World, value any, edits []func(map[string]any)) []byte {
	data, err := json.Marshal(value)
	w.check(err)
	if len(edits) == 0 {
		return data
	}
	var plain map[string]any
	w.check(json.Unmarshal(data, &plain))
	for _, edit := range edits {
		edit(plain)
	}
	data, err = json.Marshal(plain)
	w.check(err)
	return data
}

// Validity returns an edit of a root that sets the validity of the first entry of a list:
// tlogs, ctlogs, certificateAuthorities or timestampAuthorities. A zero end means none.
func Validity(list string, start, end time.Time) func(map[string]any) {
	return func(root map[string]any) {
		valid := m{"start": start.UTC().Format(time.RFC3339)}
		if !end.IsZero() {
			valid["end"] = end.UTC().Format(time.RFC3339)
		}
		one := root[list].([]any)[0].(m)
		if key, ok := one["publicKey"].(m); ok {
			key["validFor"] = valid
		} else {
			one["validFor"] = valid
		}
	}
}

// logID returns the id of a log: the hash of its key.
func (w *World) logID(key crypto.Signer) []byte {
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	w.check(err)
	sum := sha256.Sum256(der)
	return sum[:]
}

// AnyStamper is an edit of a root: its authority for time stamps names no certificate of its
// service, and each that it issued counts.
func AnyStamper(root map[string]any) {
	chain := root["timestampAuthorities"].([]any)[0].(m)["certChain"].(m)
	chain["certificates"] = chain["certificates"].([]any)[1:]
}
