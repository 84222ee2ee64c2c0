package sigstore

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/registry/sigstore/sigstoretest"
)

const (
	testIssuer  = "https://token.test"
	testSubject = "https://forge.test/org/repo/.github/workflows/release.yml@refs/tags/v1"
)

// day is when the tests sign; nothing here reads a clock.
var day = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// message returns a signing of a message, after an edit.
func message(edit func(*sigstoretest.Signing)) sigstoretest.Signing {
	s := sigstoretest.Signing{Subject: testSubject, Issuer: testIssuer, At: day, Message: []byte("weights")}
	if edit != nil {
		edit(&s)
	}
	return s
}

// statement returns a signing of a statement, after an edit.
func statement(edit func(*sigstoretest.Signing)) sigstoretest.Signing {
	s := sigstoretest.Signing{Subject: testSubject, Issuer: testIssuer, At: day, Payload: fmt.Appendf(nil, `{"_type":"https://in-toto.io/Statement/v1","subject":[{"name":"w","digest":{"sha256":%q}}],"predicateType":"https://example.org/review/v1","predicate":{"a":1}}`, weightsDigest())}
	if edit != nil {
		edit(&s)
	}
	return s
}

// weightsDigest is the digest of the message.
func weightsDigest() string {
	return fmt.Sprintf("%x", sha256.Sum256([]byte("weights")))
}

// ecdsaKey and the like return keys of one kind.
func ecdsaKey(t testing.TB, c elliptic.Curve) crypto.Signer {
	k, err := ecdsa.GenerateKey(c, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func edKey(t testing.TB) crypto.Signer {
	_, k, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// sound returns signatures that must be accepted.
func sound(t testing.TB) map[string]sigstoretest.Signing {
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	type signing = sigstoretest.Signing
	return map[string]signing{
		"message":               message(nil),
		"message v0.1":          message(func(s *signing) { s.Version = "0.1" }),
		"v0.1 without proof":    message(func(s *signing) { s.Version, s.NoProof = "0.1", true }),
		"message v0.2":          message(func(s *signing) { s.Version = "0.2" }),
		"statement":             statement(nil),
		"statement v0.1":        statement(func(s *signing) { s.Version = "0.1" }),
		"intoto entry":          statement(func(s *signing) { s.Kind = "intoto 0.0.2" }),
		"tiles":                 message(func(s *signing) { s.Kind = "hashedrekord 0.0.2" }),
		"tiles, statement":      statement(func(s *signing) { s.Kind = "hashedrekord 0.0.2" }),
		"stamp with promise":    message(func(s *signing) { s.Stamp = true }),
		"stamp without promise": message(func(s *signing) { s.Stamp, s.NoPromise = true, true }),
		"stamp by SHA-384":      message(func(s *signing) { s.Stamp, s.StampHash, s.NoPromise = true, crypto.SHA384, true }),
		"stamp by SHA-512":      message(func(s *signing) { s.Stamp, s.StampHash, s.NoPromise = true, crypto.SHA512, true }),
		"bare stamp":            message(func(s *signing) { s.Stamp, s.BareStamp, s.NoPromise = true, true, true }),
		"with a foreign stamp":  message(func(s *signing) { s.Stamp, s.ForeignStamp = true, true }),
		"P-384":                 message(func(s *signing) { s.Key, s.Hash = ecdsaKey(t, elliptic.P384()), crypto.SHA384 }),
		"P-384 with SHA-256":    message(func(s *signing) { s.Key = ecdsaKey(t, elliptic.P384()) }),
		"P-521":                 statement(func(s *signing) { s.Key, s.Hash = ecdsaKey(t, elliptic.P521()), crypto.SHA512 }),
		"RSA":                   statement(func(s *signing) { s.Key = rsaKey }),
		"Ed25519":               statement(func(s *signing) { s.Key = edKey(t) }),
		"Ed25519ph":             message(func(s *signing) { s.Key, s.Hash = edKey(t), crypto.SHA512 }),
		"address":               message(func(s *signing) { s.Subject = "a@b.test" }),
		"user name":             message(func(s *signing) { s.Subject = "!someone!b.test" }),
		"signed at the end":     message(func(s *signing) { s.NotBefore, s.NotAfter = day.Add(-time.Hour), day }),
		"signed at the start":   message(func(s *signing) { s.NotBefore, s.NotAfter = day, day.Add(time.Minute) }),
	}
}

func TestVerify(t *testing.T) {
	w := sigstoretest.New(t, day)
	for name, s := range sound(t) {
		t.Run(name, func(t *testing.T) {
			v, err := verify(w, s)
			if err != nil {
				t.Fatal(err)
			}
			want := strings.TrimPrefix(s.Subject, "!")
			if v.Subject != want || v.Issuer != testIssuer || len(v.Times) == 0 || !v.Times[0].Equal(day) {
				t.Errorf("got %+v", v)
			}
		})
	}
}

// verify makes, reads and verifies a signature.
func verify(w *sigstoretest.World, s sigstoretest.Signing, edits ...func(map[string]any)) (Verified, error) {
	root, err := ParseRoot(w.Root(edits...))
	if err != nil {
		return Verified{}, err
	}
	b, err := Parse(w.Bundle(s))
	if err != nil {
		return Verified{}, err
	}
	return b.Verify(root)
}

// wrong is a signature that must be refused by a check, with an edit of the root.
type wrong struct {
	signing sigstoretest.Signing
	edit    func(map[string]any)
	want    Check
}

// unsound returns signatures that must be refused: each check has a case that fails by it,
// and the same case sound in the other table.
func unsound(t testing.TB, w *sigstoretest.World) map[string]wrong {
	type signing = sigstoretest.Signing
	root := sigstoretest.Validity
	year := 365 * 24 * time.Hour
	return map[string]wrong{
		"certificate expired at the time":       {message(func(s *signing) { s.NotBefore, s.NotAfter = day.Add(-time.Hour), day.Add(-time.Second) }), nil, CheckCertificate},
		"certificate not yet valid":             {message(func(s *signing) { s.NotBefore, s.NotAfter = day.Add(time.Second), day.Add(time.Hour) }), nil, CheckCertificate},
		"certificate of another authority":      {message(func(s *signing) { s.ForeignAuthority = true }), nil, CheckCertificate},
		"time stamp outside the certificate":    {message(func(s *signing) { s.Stamp, s.StampAt = true, day.Add(time.Hour) }), nil, CheckCertificate},
		"authority counted earlier":             {message(nil), root("certificateAuthorities", w.Start, day.Add(-time.Second)), CheckCertificate},
		"authority counts later":                {message(nil), root("certificateAuthorities", day.Add(time.Second), time.Time{}), CheckCertificate},
		"no authority":                          {message(nil), drop("certificateAuthorities"), CheckCertificate},
		"certificate in no log":                 {message(func(s *signing) { s.NoTimestamps = true }), nil, CheckTransparent},
		"certificate in another log":            {message(func(s *signing) { s.ForeignCertificateLog = true }), nil, CheckTransparent},
		"timestamp of another certificate":      {message(func(s *signing) { s.OtherPrecertificate = true }), nil, CheckTransparent},
		"no log of certificates":                {message(nil), drop("ctlogs"), CheckTransparent},
		"log of certificates counted earlier":   {message(nil), root("ctlogs", w.Start, day.Add(-time.Second)), CheckTransparent},
		"log of certificates counts later":      {message(nil), root("ctlogs", day.Add(time.Second), time.Time{}), CheckTransparent},
		"no entry":                              {message(func(s *signing) { s.NoEntry, s.Stamp = true, true }), nil, CheckLogEntry},
		"no log":                                {message(nil), drop("tlogs"), CheckLogEntry},
		"entry about another message":           {message(func(s *signing) { s.OtherEntry = true }), nil, CheckLogEntry},
		"entry about another statement":         {statement(func(s *signing) { s.OtherEntry = true }), nil, CheckLogEntry},
		"tile about another statement":          {statement(func(s *signing) { s.OtherEntry, s.Kind = true, "hashedrekord 0.0.2" }), nil, CheckLogEntry},
		"entry about another signature":         {message(func(s *signing) { s.OtherSignature = true }), nil, CheckLogEntry},
		"checkpoint of another size":            {message(func(s *signing) { s.OtherSize = true }), nil, CheckCheckpoint},
		"stamp by a certificate for code":       {message(func(s *signing) { s.WideStamp, s.Kind = true, "hashedrekord 0.0.2" }), sigstoretest.AnyStamper, CheckTime},
		"use of the stamper is not critical":    {message(func(s *signing) { s.LooseStamp, s.Kind = true, "hashedrekord 0.0.2" }), sigstoretest.AnyStamper, CheckTime},
		"bare stamp without a name in the root": {message(func(s *signing) { s.BareStamp, s.Kind = true, "hashedrekord 0.0.2" }), sigstoretest.AnyStamper, CheckTime},
		"entry twice":                           {message(func(s *signing) { s.Edit = double }), nil, CheckLogEntry},
		"payload's entry about a message":       {message(func(s *signing) { s.Kind = "dsse 0.0.1" }), nil, CheckLogEntry},
		"entry of an unknown kind":              {message(func(s *signing) { s.Kind = "rpm 0.0.1" }), nil, CheckLogEntry},
		"message's entry about a statement":     {statement(func(s *signing) { s.Kind = "hashedrekord 0.0.1" }), nil, CheckLogEntry},
		"entry of a kind that logs dropped":     {statement(func(s *signing) { s.Kind = "dsse 0.0.2" }), nil, CheckLogEntry},
		"kind of the body differs":              {message(func(s *signing) { s.Edit = rekind }), nil, CheckLogEntry},
		"promise by another key":                {message(func(s *signing) { s.ForeignPromise = true }), nil, CheckPromise},
		"log's key counted earlier":             {message(nil), root("tlogs", w.Start, day.Add(-time.Second)), CheckPromise},
		"log's key counts later":                {message(nil), root("tlogs", day.Add(year), time.Time{}), CheckPromise},
		"log's key counted earlier, by stamp":   {message(func(s *signing) { s.Stamp, s.NoPromise = true, true }), root("tlogs", w.Start, day.Add(-time.Second)), CheckLogEntry},
		"proof of another leaf":                 {message(func(s *signing) { s.OtherLeaf = true }), nil, CheckInclusion},
		"proof of another tile":                 {message(func(s *signing) { s.OtherLeaf, s.Kind = true, "hashedrekord 0.0.2" }), nil, CheckInclusion},
		"checkpoint of another tree":            {message(func(s *signing) { s.OtherTree = true }), nil, CheckCheckpoint},
		"checkpoint by another key":             {message(func(s *signing) { s.ForeignCheckpoint = true }), nil, CheckCheckpoint},
		"tiles' checkpoint by another key":      {message(func(s *signing) { s.ForeignCheckpoint, s.Kind = true, "hashedrekord 0.0.2" }), nil, CheckCheckpoint},
		"tiles' checkpoint of another origin":   {message(func(s *signing) { s.OtherOrigin, s.Kind = true, "hashedrekord 0.0.2" }), nil, CheckCheckpoint},
		"neither promise nor stamp":             {message(func(s *signing) { s.NoPromise = true }), nil, CheckTime},
		"empty promise":                         {message(func(s *signing) { s.NoPromise, s.Edit = true, promiseNothing }), nil, CheckTime},
		"stamp of another authority":            {message(func(s *signing) { s.ForeignStamp, s.Kind = true, "hashedrekord 0.0.2" }), nil, CheckTime},
		"stamp of another signature":            {message(func(s *signing) { s.OtherStamp, s.Kind = true, "hashedrekord 0.0.2" }), nil, CheckTime},
		"authority for stamps counted earlier":  {message(func(s *signing) { s.Kind = "hashedrekord 0.0.2" }), root("timestampAuthorities", w.Start, day.Add(-time.Second)), CheckTime},
		"no authority for stamps":               {message(func(s *signing) { s.Kind = "hashedrekord 0.0.2" }), drop("timestampAuthorities"), CheckTime},
		"signature by another key":              {message(func(s *signing) { s.ForeignSignature = true }), nil, CheckSignature},
		"statement by another key":              {statement(func(s *signing) { s.ForeignSignature = true }), nil, CheckSignature},
		"hash that the key does not use":        {message(func(s *signing) { s.Hash = crypto.SHA512 }), nil, CheckSignature},
		"no issuer":                             {message(func(s *signing) { s.Issuer = "" }), nil, CheckIdentity},
		"two issuers":                           {message(func(s *signing) { s.Issuer, s.Extensions = "", map[int]string{1: "a", 8: "b"} }), nil, CheckIdentity},
		"no subject":                            {message(func(s *signing) { s.Subject = "" }), nil, CheckIdentity},
		"key, not a certificate":                {message(func(s *signing) { s.PublicKey = true }), nil, CheckIdentity},
	}
}

func TestVerifyRefuses(t *testing.T) {
	w := sigstoretest.New(t, day)
	for name, c := range unsound(t, w) {
		t.Run(name, func(t *testing.T) {
			var edits []func(map[string]any)
			if c.edit != nil {
				edits = append(edits, c.edit)
			}
			_, err := verify(w, c.signing, edits...)
			if !errors.Is(err, &Fault{Check: c.want}) {
				t.Errorf("got %v, want a fault of %s", err, c.want)
			}
		})
	}
}

// drop empties a list of a root.
func drop(list string) func(map[string]any) {
	return func(root map[string]any) { root[list] = []any{} }
}

// entries returns the entries of a bundle.
func entries(b map[string]any) []any {
	return b["verificationMaterial"].(map[string]any)["tlogEntries"].([]any)
}

// double repeats the entry of a bundle.
func double(b map[string]any) {
	b["verificationMaterial"].(map[string]any)["tlogEntries"] = append(entries(b), entries(b)[0])
}

// promiseNothing states a signed entry timestamp without a signature.
func promiseNothing(b map[string]any) {
	entries(b)[0].(map[string]any)["inclusionPromise"] = map[string]any{"signedEntryTimestamp": ""}
}

// rekind states another kind than the body has.
func rekind(b map[string]any) {
	entries(b)[0].(map[string]any)["kindVersion"] = map[string]any{"kind": "dsse", "version": "0.0.1"}
}

// An authority for time stamps may leave its certificate to the stamps.
func TestAnyStamper(t *testing.T) {
	w := sigstoretest.New(t, day)
	if _, err := verify(w, message(func(s *sigstoretest.Signing) { s.Kind = "hashedrekord 0.0.2" }), sigstoretest.AnyStamper); err != nil {
		t.Error(err)
	}
}

// The issuer of an authority for time stamps may state no use, any, or that of stamps.
func TestStampIssuer(t *testing.T) {
	for _, c := range []struct {
		uses []x509.ExtKeyUsage
		ok   bool
	}{
		{nil, true}, {[]x509.ExtKeyUsage{x509.ExtKeyUsageAny}, true}, {[]x509.ExtKeyUsage{x509.ExtKeyUsageTimeStamping, x509.ExtKeyUsageCodeSigning}, true},
		{[]x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning}, false},
	} {
		w := sigstoretest.New(t, day)
		w.Restamp(c.uses...)
		if _, err := verify(w, message(func(s *sigstoretest.Signing) { s.Kind = "hashedrekord 0.0.2" })); (err == nil) != c.ok {
			t.Errorf("uses %v: %v", c.uses, err)
		}
	}
}

// The ends of a validity are part of it.
func TestValidityEnds(t *testing.T) {
	w := sigstoretest.New(t, day)
	for _, list := range []string{"tlogs", "ctlogs", "certificateAuthorities", "timestampAuthorities"} {
		for _, edit := range []func(map[string]any){sigstoretest.Validity(list, w.Start, day), sigstoretest.Validity(list, day, time.Time{})} {
			s := message(func(s *sigstoretest.Signing) { s.Stamp = true })
			if list == "timestampAuthorities" {
				s.NoPromise = true
			}
			if _, err := verify(w, s, edit); err != nil {
				t.Errorf("%s: %v", list, err)
			}
		}
	}
}

// The digest of a message is the bundle's claim, which the signature confirms.
func TestDigest(t *testing.T) {
	w := sigstoretest.New(t, day)
	b, err := Parse(w.Bundle(message(nil)))
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte("weights"))
	if b.Digest.Hash != crypto.SHA256 || !bytes.Equal(b.Digest.Sum, sum[:]) {
		t.Errorf("got %v", b.Digest)
	}
	other := sha256.Sum256([]byte("other"))
	_, err = verify(w, message(func(s *sigstoretest.Signing) {
		s.Edit = func(b map[string]any) {
			b["messageSignature"].(map[string]any)["messageDigest"] = map[string]any{"algorithm": "SHA2_256", "digest": other[:]}
		}
	}))
	if !errors.Is(err, &Fault{Check: CheckLogEntry}) {
		t.Errorf("a changed digest: %v", err)
	}
}

func TestClaim(t *testing.T) {
	w := sigstoretest.New(t, day)
	v, err := verify(w, message(func(s *sigstoretest.Signing) {
		s.Extensions = map[int]string{5: "org/repo", 12: "https://forge.test/org/repo", 17: "42", 99: "unknown"}
	}))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"github_workflow_repository": "org/repo", "source_repository_uri": "https://forge.test/org/repo", "source_repository_owner_identifier": "42"}
	if d := cmp.Diff(want, v.Extensions); d != "" {
		t.Error(d)
	}
	if n := len(ExtensionNames()); n != 19 {
		t.Errorf("got %d names of extensions", n)
	}
}

func TestVerifyKey(t *testing.T) {
	w := sigstoretest.New(t, day)
	key := ecdsaKey(t, elliptic.P256())
	root, err := ParseRoot(w.Root())
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		edit func(*sigstoretest.Signing)
		key  crypto.PublicKey
		root *Root
		want Check
	}{
		"with root":       {nil, key.Public(), root, ""},
		"without root":    {func(s *sigstoretest.Signing) { s.NoEntry = true }, key.Public(), nil, ""},
		"other key":       {nil, ecdsaKey(t, elliptic.P256()).Public(), root, CheckLogEntry},
		"other, no root":  {nil, ecdsaKey(t, elliptic.P256()).Public(), nil, CheckSignature},
		"no entry":        {func(s *sigstoretest.Signing) { s.NoEntry = true }, key.Public(), root, CheckLogEntry},
		"a certificate":   {func(s *sigstoretest.Signing) { s.PublicKey = false }, key.Public(), root, CheckIdentity},
		"foreign promise": {func(s *sigstoretest.Signing) { s.ForeignPromise = true }, key.Public(), root, CheckPromise},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := Parse(w.Bundle(message(func(s *sigstoretest.Signing) {
				s.Key, s.PublicKey = key, true
				if c.edit != nil {
					c.edit(s)
				}
			})))
			if err != nil {
				t.Fatal(err)
			}
			err = b.VerifyKey(c.key, c.root)
			if c.want == "" && err != nil || c.want != "" && !errors.Is(err, &Fault{Check: c.want}) {
				t.Errorf("got %v, want a fault of %q", err, c.want)
			}
		})
	}
}

// Any change of one byte of a bundle is refused, or changes nothing that was signed.
func TestFlippedBytes(t *testing.T) {
	w := sigstoretest.New(t, day)
	root, err := ParseRoot(w.Root())
	if err != nil {
		t.Fatal(err)
	}
	data := w.Bundle(message(nil))
	for i := 0; i < len(data); i += 11 {
		flipped := bytes.Clone(data)
		flipped[i] ^= 4
		b, err := Parse(flipped)
		if err != nil {
			continue
		}
		v, err := b.Verify(root)
		if err == nil && (v.Subject != testSubject || !bytes.Equal(b.Digest.Sum, mustParse(t, data).Digest.Sum)) {
			t.Fatalf("byte %d: verified %+v", i, v)
		}
	}
}

// mustParse reads a bundle that is known to be sound.
func mustParse(t *testing.T, data []byte) *Bundle {
	b, err := Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
