package sign

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// The certificates of tests are valid from born to dies.
var (
	born = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	dies = born.AddDate(1, 0, 0)
)

// authority issues certificates.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// issue returns a certificate by a that change has altered; a nil authority signs itself.
func (a *authority) issue(t testing.TB, name string, key crypto.Signer, change func(*x509.Certificate)) *authority {
	t.Helper()
	form := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: born, NotAfter: dies, BasicConstraintsValid: true}
	if change != nil {
		change(form)
	}
	parent := authority{form, key}
	if a != nil {
		parent = *a
	}
	der, err := x509.CreateCertificate(rand.Reader, form, parent.cert, key.Public(), parent.key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{cert, key}
}

func asAuthority(c *x509.Certificate) { c.IsCA, c.KeyUsage = true, x509.KeyUsageCertSign }

func asSigner(c *x509.Certificate) {
	c.KeyUsage, c.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning}
	c.EmailAddresses = []string{"release@example.org"}
}

func ecKey(t testing.TB, curve elliptic.Curve) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// hierarchy is a root, an authority below it and a key that signs.
type hierarchy struct {
	root, middle *authority
	key          *PrivateKey
}

func newHierarchy(t testing.TB) *hierarchy {
	root := (*authority)(nil).issue(t, "root", ecKey(t, elliptic.P256()), asAuthority)
	return &hierarchy{root, root.issue(t, "middle", ecKey(t, elliptic.P256()), asAuthority), newKey(t, P256).private}
}

// chain returns the certificates of the key.
func (h *hierarchy) chain(t testing.TB, change func(*x509.Certificate)) []*x509.Certificate {
	leaf := h.middle.issue(t, "release", h.key.signer, func(c *x509.Certificate) {
		asSigner(c)
		if change != nil {
			change(c)
		}
	})
	return []*x509.Certificate{leaf.cert, h.middle.cert}
}

// sealed signs a file by a chain that nothing checks.
func (h *hierarchy) sealed(t testing.TB, chain []*x509.Certificate) []byte {
	t.Helper()
	data, err := SignFolder(h.key, Folder{Name: "m", Files: []FolderFile{{"a", strings.Repeat("ab", 32)}}}, born)
	if err != nil {
		t.Fatal(err)
	}
	var b bundle
	if err := json.Unmarshal(data, &b); err != nil {
		t.Fatal(err)
	}
	payload, err := decodeBase64(b.DSSEEnvelope.Payload)
	if err != nil {
		t.Fatal(err)
	}
	if data, err = sealFolder(h.key, chain, payload); err != nil {
		t.Fatal(err)
	}
	return data
}

// refused reports an error without the wanted text; "" wants none.
func refused(t *testing.T, err error, want string) {
	t.Helper()
	if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
		t.Errorf("got %v, want %q", err, want)
	}
}

// Chains are accepted while the certificate is valid, in order, for signatures and below a
// trusted root; both the signer and the verifier refuse others by name.
func TestFolderCertificates(t *testing.T) {
	h := newHierarchy(t)
	other := newHierarchy(t)
	good := h.chain(t, nil)
	usage := func(k x509.KeyUsage, e ...x509.ExtKeyUsage) []*x509.Certificate {
		return h.chain(t, func(c *x509.Certificate) { c.KeyUsage, c.ExtKeyUsage = k, e })
	}
	const signature, code = x509.KeyUsageDigitalSignature, x509.ExtKeyUsageCodeSigning
	expired := h.root.issue(t, "expired", h.middle.key, func(c *x509.Certificate) { asAuthority(c); c.NotAfter = born.Add(time.Hour) })
	for _, c := range []struct {
		name             string
		chain            []*x509.Certificate
		root             *x509.Certificate
		now              time.Time
		identity         string
		verifies, signed string
	}{
		{name: "good"},
		{name: "with its root", chain: append(slices.Clone(good), h.root.cert)},
		{name: "wrong root", root: other.root.cert, verifies: "leads to none of 1 trusted roots"},
		{name: "first second", now: born},
		{name: "last second", now: dies},
		{name: "second before", now: born.Add(-time.Second), verifies: "this machine's time is 2025-12-31T23:59:59Z", signed: "this machine's time"},
		{name: "second after", now: dies.Add(time.Second), verifies: "this machine's time is 2027-01-01T00:00:01Z", signed: "this machine's time"},
		{name: "hour before", now: born.Add(-time.Hour), verifies: "valid from 2026-01-01T00:00:00Z to 2027-01-01T00:00:00Z", signed: "valid from"},
		{name: "hour after", now: dies.Add(time.Hour), verifies: "valid from 2026-01-01T00:00:00Z to 2027-01-01T00:00:00Z", signed: "valid from"},
		{name: "expired authority", chain: []*x509.Certificate{h.chain(t, nil)[0], expired.cert}, verifies: "out of order", signed: "out of order"},
		{name: "root first", chain: []*x509.Certificate{h.root.cert, h.middle.cert, good[0]}, verifies: "out of order", signed: "out of order"},
		{name: "authorities swapped", chain: []*x509.Certificate{good[0], h.root.cert, h.middle.cert}, verifies: "out of order", signed: "out of order"},
		{name: "foreign authority", chain: []*x509.Certificate{good[0], other.middle.cert}, verifies: "out of order", signed: "out of order"},
		{name: "authority missing", chain: good[:1], verifies: "leads to none"},
		{name: "usage of keys only", chain: usage(signature)},
		{name: "extended usage only", chain: usage(0, code)},
		{name: "any extended usage", chain: usage(signature, x509.ExtKeyUsageAny)},
		{name: "no usage", chain: usage(0), verifies: "without digital signature", signed: "without digital signature"},
		{name: "usage for encryption", chain: usage(x509.KeyUsageKeyEncipherment, code), verifies: "without digital signature", signed: "without digital signature"},
		{name: "usage of a server", chain: usage(signature, x509.ExtKeyUsageServerAuth), verifies: "without code signing", signed: "without code signing"},
		{name: "address", identity: "release@example.org"},
		{name: "subject", identity: "CN=release"},
		{name: "other identity", identity: "release@example.com", verifies: `identity: got ["CN=release" "release@example.org"]`},
		{name: "none", chain: []*x509.Certificate{}, verifies: "none of 0 keys"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.chain == nil {
				c.chain = good
			}
			if c.root == nil {
				c.root = h.root.cert
			}
			if c.now.IsZero() {
				c.now = born.AddDate(0, 6, 0)
			}
			trust := FolderTrust{Authorities: []FolderAuthority{{Roots: []*x509.Certificate{c.root}}}, Now: c.now}
			if c.identity != "" {
				trust.Authorities[0].Identities = []string{c.identity}
			}
			if len(c.chain) == 0 {
				trust.Authorities = nil
			}
			f, err := OpenFolder(h.sealed(t, c.chain), trust)
			refused(t, err, c.verifies)
			if err == nil && (f.KeyID != h.key.public.KeyID() || len(f.Chain) != len(c.chain)) {
				t.Errorf("got key %s and %d certificates", f.KeyID, len(f.Chain))
			}
			_, err = SignFolder(h.key, Folder{Files: f.Files, Chain: c.chain}, c.now)
			if f.Files == nil {
				_, err = SignFolder(h.key, Folder{Files: []FolderFile{{"a", strings.Repeat("ab", 32)}}, Chain: c.chain}, c.now)
			}
			refused(t, err, c.signed)
		})
	}
}

// An authority that has expired confirms nothing, even if its certificates have not; the
// signer and the verifier name it.
func TestFolderExpiredAuthority(t *testing.T) {
	h := newHierarchy(t)
	h.middle = h.root.issue(t, "middle", h.middle.key, func(c *x509.Certificate) { asAuthority(c); c.NotAfter = born.Add(time.Hour) })
	chain := h.chain(t, nil)
	data := h.sealed(t, chain)
	for after, want := range map[time.Duration]string{0: "", time.Second: `certificate of "CN=middle": `} {
		now := born.Add(time.Hour + after)
		_, err := OpenFolder(data, FolderTrust{Authorities: []FolderAuthority{{Roots: []*x509.Certificate{h.root.cert}}}, Now: now})
		refused(t, err, want)
		_, err = SignFolder(h.key, Folder{Files: []FolderFile{{"a", strings.Repeat("ab", 32)}}, Chain: chain}, now)
		refused(t, err, want)
	}
}

// Only the key of the certificate signs, and a key alone is refused.
func TestFolderCertificateKeys(t *testing.T) {
	h := newHierarchy(t)
	chain := h.chain(t, nil)
	trust := FolderTrust{Authorities: []FolderAuthority{{Roots: []*x509.Certificate{h.root.cert}}}, Now: born}
	foreign := hierarchy{h.root, h.middle, newKey(t, P256).private}
	_, err := OpenFolder(foreign.sealed(t, chain), trust)
	refused(t, err, "does not verify it")
	_, err = SignFolder(foreign.key, Folder{Files: []FolderFile{{"a", strings.Repeat("ab", 32)}}, Chain: chain}, born)
	refused(t, err, "is not that of key")
	_, err = OpenFolder(h.sealed(t, nil), trust)
	refused(t, err, "signed by a key alone")
	_, err = OpenFolder(h.sealed(t, chain), FolderTrust{Keys: []*PublicKey{h.key.Public()}, Now: born})
	refused(t, err, "want roots of certificates")
	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[crypto.Signer]string{edKeyed(edKey): "want ECDSA", ecKey(t, elliptic.P224()): "want P-256", ecKey(t, elliptic.P384()): "does not verify"} {
		leaf := h.middle.issue(t, "release", key, asSigner).cert
		_, err := OpenFolder(h.sealed(t, []*x509.Certificate{leaf, h.middle.cert}), trust)
		refused(t, err, want)
	}
}

// edKeyed makes an Ed25519 key usable as the key of a map.
func edKeyed(k ed25519.PrivateKey) crypto.Signer { return &k }

// Signatures of PyPI model-signing 1.1.1 by certificates over P-256, P-384 and P-521 verify.
func TestFolderForeignCertificate(t *testing.T) {
	for _, curve := range []string{"p256", "p384", "p521"} {
		data, err := os.ReadFile("testdata/folder/" + curve + ".sig")
		if err != nil {
			t.Fatal(err)
		}
		pems, err := os.ReadFile("testdata/folder/root.pem")
		if err != nil {
			t.Fatal(err)
		}
		roots, err := LoadCertificates(pems)
		if err != nil {
			t.Fatal(err)
		}
		trust := FolderTrust{Authorities: []FolderAuthority{{Roots: roots, Identities: []string{"CN=" + curve}}}, Now: roots[0].NotBefore.AddDate(1, 0, 0)}
		f, err := OpenFolder(data, trust)
		if err != nil || len(f.Files) != 2 || len(f.Chain) != 2 {
			t.Errorf("%s: got %+v, %v", curve, f, err)
		}
		var b bundle
		if err := json.Unmarshal(data, &b); err != nil {
			t.Fatal(err)
		}
		sig, err := decodeBase64(b.DSSEEnvelope.Signatures[0].Sig)
		if err != nil {
			t.Fatal(err)
		}
		sig[len(sig)-1] ^= 1
		_, err = OpenFolder(bytes.Replace(data, []byte(b.DSSEEnvelope.Signatures[0].Sig), []byte(base64.StdEncoding.EncodeToString(sig)), 1), trust)
		refused(t, err, "does not verify it")
	}
}

// Files and chains on either side of their limits.
func TestCertificateLimits(t *testing.T) {
	h := newHierarchy(t)
	leaf := h.chain(t, nil)[0]
	block := func(c *x509.Certificate) []byte {
		return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
	}
	load := func(data []byte) error { _, err := LoadCertificates(data); return err }
	refused(t, load(nil), "no PEM block")
	refused(t, load(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY"})), `got "PRIVATE KEY"`)
	refused(t, load(bytes.Repeat(block(leaf), maxCertificates)), "")
	refused(t, load(bytes.Repeat(block(leaf), maxCertificates+1)), "more than 512")
	pad := func(n int) []byte { b := block(leaf); return append(b, bytes.Repeat([]byte{'\n'}, n-len(b))...) }
	refused(t, load(pad(MaxCertificateFile)), "")
	refused(t, load(pad(MaxCertificateFile+1)), "want at most")
	sized := func(n int) *x509.Certificate { // of n bytes
		grow := func(more int) *x509.Certificate {
			return h.chain(t, func(c *x509.Certificate) {
				c.ExtraExtensions = []pkix.Extension{{Id: []int{1, 2, 3}, Value: make([]byte, more)}}
			})[0]
		}
		for more := n - len(grow(n-1000).Raw) + n - 1000; ; { // ECDSA signatures vary by bytes
			if c := grow(more); len(c.Raw) == n {
				return c
			}
		}
	}
	refused(t, load(block(sized(maxCertificate))), "")
	refused(t, load(block(sized(maxCertificate+1))), "want at most 16384")
	for more, want := range []string{"", "more than 8"} {
		chain := []*x509.Certificate{h.root.cert}
		above := h.root
		for len(chain) < maxFolderChain+more-1 {
			above = above.issue(t, "middle", h.middle.key, asAuthority)
			chain = slices.Insert(chain, 0, above.cert)
		}
		chain = slices.Insert(chain, 0, above.issue(t, "release", h.key.signer, asSigner).cert)
		trust := FolderTrust{Authorities: []FolderAuthority{{Roots: []*x509.Certificate{h.root.cert}}}, Now: born}
		_, err := OpenFolder(h.sealed(t, chain), trust)
		refused(t, err, want)
		_, err = SignFolder(h.key, Folder{Files: []FolderFile{{"a", strings.Repeat("ab", 32)}}, Chain: chain}, born)
		refused(t, err, strings.Replace(want, "more than", "want at most", 1))
	}
}

// FuzzFolderChain holds that any chain is refused or leads to the root.
func FuzzFolderChain(f *testing.F) {
	h := newHierarchy(f)
	trust := FolderTrust{Authorities: []FolderAuthority{{Roots: []*x509.Certificate{h.root.cert}}}, Now: born}
	good := h.sealed(f, h.chain(f, nil))
	f.Add(good)
	f.Add(h.sealed(f, nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		if folder, err := OpenFolder(data, trust); err == nil && (len(folder.Chain) == 0 || folder.KeyID == "") {
			t.Error("verified without a certificate")
		}
		_, _ = LoadCertificates(data)
		_, _ = parseChain(data)
	})
}
