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
