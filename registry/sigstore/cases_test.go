package sigstore

import (
	"crypto/elliptic"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mm-abi.org/mm/registry/sigstore/sigstoretest"
)

// writeOwn writes signatures of [Signer] as cases, and its requests to the services, which
// the libraries of these services judge.
func writeOwn(t *testing.T, dir string) {
	w := newSigningWorld(t)
	files := map[string][]byte{}
	for name, o := range map[string]SignerOptions{"own-log-1": w.options(t, false, 1), "own-log-1-stamped": w.options(t, true, 1), "own-log-2": w.options(t, true, 2)} {
		s, err := NewSigner(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		data, err := s.Seal(t.Context(), "application/vnd.in-toto+json", statement(nil).Payload)
		if err != nil {
			t.Fatal(err)
		}
		for file, data := range map[string][]byte{
			"bundle.sigstore.json": data, "trusted_root.json": w.trusted, "artifact": []byte("weights"), "identity": []byte(s.Identity().Subject), "issuer": []byte(s.Identity().Issuer),
		} {
			files[filepath.Join(dir, name, file)] = data
		}
	}
	for file, path := range map[string]string{"fulcio": "/fulcio/api/v2/signingCert", "rekor1": "/rekor/api/v1/log/entries", "rekor2": "/tiles/api/v2/log/entries", "stamp": "/stamps"} {
		files[filepath.Join(dir+".requests", file)] = w.Last(path)
	}
	for file, data := range files {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestWriteCases writes the cases of TestVerify and TestVerifyRefuses in the form of
// sigstore-conformance to the folder MM_KEYLESS_CASES: one folder each with a bundle, a
// trusted root, the artifact, and the identity, its name ending in _fail if it must be
// refused. scripts/keyless.sh compares the verdicts of other programs.
func TestWriteCases(t *testing.T) {
	dir := os.Getenv("MM_KEYLESS_CASES")
	if dir == "" {
		t.Skip("MM_KEYLESS_CASES names no folder")
	}
	w := sigstoretest.New(t, day)
	write := func(name string, s sigstoretest.Signing, edits ...func(map[string]any)) {
		at := filepath.Join(dir, strings.NewReplacer(" ", "-", ",", "", "'", "").Replace(name))
		if err := os.MkdirAll(at, 0o755); err != nil {
			t.Fatal(err)
		}
		files := map[string][]byte{
			"bundle.sigstore.json": w.Bundle(s), "trusted_root.json": w.Root(edits...), "artifact": []byte("weights"),
			"identity": []byte(strings.TrimPrefix(s.Subject, "!")), "issuer": []byte(testIssuer),
		}
		if s.PublicKey && s.Key != nil {
			der, err := x509.MarshalPKIXPublicKey(s.Key.Public())
			if err != nil {
				t.Fatal(err)
			}
			files["key.pub"] = pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
		}
		for file, data := range files {
			if err := os.WriteFile(filepath.Join(at, file), data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, s := range sound(t) {
		write(name, s)
	}
	writeOwn(t, dir)
	for name, c := range unsound(t, w) {
		if c.edit != nil {
			write(name+"_fail", c.signing, c.edit)
		} else {
			write(name+"_fail", c.signing)
		}
	}
	key := message(func(s *sigstoretest.Signing) { s.Key, s.PublicKey = ecdsaKey(t, elliptic.P256()), true })
	write("managed key", key)
	key.ForeignSignature = true
	write("managed key, other signature_fail", key)
	other := message(func(s *sigstoretest.Signing) { s.Message = []byte("other") })
	write("other artifact_fail", other)
	write("other artifact of a statement_fail", statement(func(s *sigstoretest.Signing) {
		s.Payload = []byte(strings.ReplaceAll(string(s.Payload), weightsDigest(), strings.Repeat("0", 64)))
	}))
}
