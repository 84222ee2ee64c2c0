package sign

import (
	"bytes"
	"crypto"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/sigstore/sigstore/pkg/signature/dsse"
)

// TestSealVerifiesElsewhere verifies our envelope with sigstore's DSSE code.
func TestSealVerifiesElsewhere(t *testing.T) {
	for _, alg := range []Algorithm{P256, Ed25519} {
		k := newKey(t, alg)
		subject := digest.FromString("manifest")
		data, err := seal(t.Context(), k.private, subject, Attestation{ReleaseType, json.RawMessage(`{}`)})
		if err != nil {
			t.Fatal(err)
		}
		var b struct {
			Envelope json.RawMessage `json:"dsseEnvelope"`
		}
		if err := json.Unmarshal(data, &b); err != nil {
			t.Fatal(err)
		}
		pub, err := cryptoutils.UnmarshalPEMToPublicKey(k.pem)
		if err != nil {
			t.Fatal(err)
		}
		v, err := signature.LoadVerifier(pub, crypto.SHA256)
		if err != nil {
			t.Fatal(err)
		}
		var payload []byte
		wrapped := dsse.WrapVerifier(v, dsse.WithExpectedPayloadType(payloadType), dsse.WithDecodedPayload(&payload))
		if err := wrapped.VerifySignature(bytes.NewReader(b.Envelope), nil); err != nil {
			t.Fatal(err)
		}
		want := `{"_type":"https://in-toto.io/Statement/v1","subject":[{"digest":{"sha256":"` + subject.Encoded() +
			`"}}],"predicateType":"https://sigstore.dev/cosign/sign/v1","predicate":{}}`
		if diff := cmp.Diff(want, string(payload)); diff != "" {
			t.Error(diff)
		}
	}
}

// TestOpenTakesForeignEnvelope opens an envelope of sigstore's DSSE code.
func TestOpenTakesForeignEnvelope(t *testing.T) {
	signer, key, err := signature.NewDefaultECDSASignerVerifier()
	if err != nil {
		t.Fatal(err)
	}
	subject := digest.FromString("manifest")
	payload := `{"_type":"https://in-toto.io/Statement/v1","subject":[{"name":"x","digest":{"sha256":"` + subject.Encoded() +
		`"}}],"predicateType":"https://sigstore.dev/cosign/sign/v1"}`
	env, err := dsse.WrapSigner(signer, payloadType).SignMessage(strings.NewReader(payload))
	if err != nil {
		t.Fatal(err)
	}
	o, err := open([]byte(`{"mediaType":"` + BundleMediaType + `","verificationMaterial":{"publicKey":{"hint":"x"}},"dsseEnvelope":` + string(env) + `}`))
	if err != nil {
		t.Fatal(err)
	}
	pub, err := newPublic(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	if err := pub.verify(o.message, o.signature); err != nil {
		t.Error(err)
	}
	if o.hint != "x" || !o.statement.names(subject) || o.statement.names(digest.FromString("other")) {
		t.Errorf("opened as %+v", o)
	}
}

// FuzzOpen checks that a bundle that verifies with the key has exactly the
// statement that the key signed, whatever the bytes.
func FuzzOpen(f *testing.F) {
	private, err := LoadPrivate([]byte(fuzzKey), nil)
	if err != nil {
		f.Fatal(err)
	}
	subject := digest.FromString("manifest")
	good, err := seal(f.Context(), private, subject, Attestation{ReleaseType, json.RawMessage(`{}`)})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(bytes.Replace(good, []byte(`"publicKey"`), []byte(`"PublicKey"`), 1))
	f.Add(bytes.Replace(good, []byte(`"payload"`), []byte(`"payload":"","payload"`), 1))
	f.Add(bytes.Replace(good, []byte(`"verificationMaterial":{`), []byte(`"verificationMaterial":{"tlogEntries":[],"timestampVerificationData":null,`), 1))
	f.Add([]byte(`{"mediaType":"` + BundleMediaType + `","verificationMaterial":{"certificate":{"rawBytes":""}},"dsseEnvelope":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		o, err := open(data)
		if err != nil {
			return
		}
		if private.public.verify(o.message, o.signature) != nil {
			return
		}
		if o.statement.PredicateType != ReleaseType || !o.statement.names(subject) || len(o.statement.Subject) != 1 {
			t.Fatalf("verified with another statement %+v", o.statement)
		}
	})
}

// fuzzKey signs nothing of worth.
const fuzzKey = `-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f
-----END PRIVATE KEY-----
`
