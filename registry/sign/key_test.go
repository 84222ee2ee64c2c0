package sign

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestKeysRoundTrip(t *testing.T) {
	for _, alg := range []Algorithm{"", P256, Ed25519} {
		for _, password := range [][]byte{nil, {}, []byte("secret")} {
			private, public, err := Generate(alg, password)
			if err != nil {
				t.Fatal(err)
			}
			wantType := "ENCRYPTED SIGSTORE PRIVATE KEY"
			if password == nil {
				wantType = "PRIVATE KEY"
			}
			block, _ := pem.Decode(private)
			if block.Type != wantType {
				t.Errorf("%q with password %q: %s", alg, password, block.Type)
			}
			k, err := LoadPrivate(private, func() ([]byte, error) { return password, nil })
			if err != nil {
				t.Fatal(err)
			}
			pub, err := LoadPublic(public)
			if err != nil {
				t.Fatal(err)
			}
			if k.Public().KeyID() != pub.KeyID() {
				t.Errorf("%q: the halves have ids %s and %s", alg, k.Public().KeyID(), pub.KeyID())
			}
			sig, err := k.sign([]byte("message"))
			if err != nil {
				t.Fatal(err)
			}
			if err := pub.verify([]byte("message"), sig); err != nil {
				t.Error(err)
			}
			if pub.verify([]byte("massage"), sig) == nil {
				t.Error("a signature over another message verifies")
			}
			sig[len(sig)-1] ^= 1
			if pub.verify([]byte("message"), sig) == nil {
				t.Error("a changed signature verifies")
			}
		}
	}
}

func TestKeyIDIsHashOfSPKI(t *testing.T) {
	_, public, err := Generate(P256, nil)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(public)
	sum := sha256.Sum256(block.Bytes)
	k, err := LoadPublic(public)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(hex.EncodeToString(sum[:]), k.KeyID()); diff != "" {
		t.Error(diff)
	}
}

func TestLoadPrivateWantsThePassword(t *testing.T) {
	private, _, err := Generate(P256, []byte("right"))
	if err != nil {
		t.Fatal(err)
	}
	broken := errors.New("no terminal")
	for name, password := range map[string]func() ([]byte, error){
		"none":   nil,
		"wrong":  func() ([]byte, error) { return []byte("wrong"), nil },
		"empty":  func() ([]byte, error) { return nil, nil },
		"failed": func() ([]byte, error) { return nil, broken },
	} {
		_, err := LoadPrivate(private, password)
		if !errors.Is(err, ErrPassword) || strings.Contains(err.Error(), "right") {
			t.Errorf("%s: %v", name, err)
		}
		if name == "failed" && !errors.Is(err, broken) {
			t.Errorf("%s: the cause is lost: %v", name, err)
		}
	}
	asked := false
	plain, _, _ := Generate(Ed25519, nil)
	if _, err := LoadPrivate(plain, func() ([]byte, error) { asked = true; return nil, nil }); err != nil || asked {
		t.Errorf("an open key: %v, password asked: %v", err, asked)
	}
}

func TestLoadRefusesOtherKeys(t *testing.T) {
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	encode := func(typ string, der []byte, err error) []byte {
		if err != nil {
			t.Fatal(err)
		}
		return pem.EncodeToMemory(&pem.Block{Type: typ, Bytes: der})
	}
	private := func(key any) []byte {
		der, err := x509.MarshalPKCS8PrivateKey(key)
		return encode("PRIVATE KEY", der, err)
	}
	public := func(key any) []byte {
		der, err := x509.MarshalPKIXPublicKey(key)
		return encode("PUBLIC KEY", der, err)
	}
	_, good, _ := Generate(P256, nil)
	goodPrivate, _, _ := Generate(P256, nil)
	for name, data := range map[string][]byte{
		"P-384": private(p384), "RSA": private(rsaKey), "public half": good, "two keys": append(goodPrivate, goodPrivate...),
		"nothing": nil, "text": []byte("hello"), "long": make([]byte, maxKeyFile+1),
	} {
		if _, err := LoadPrivate(data, nil); err == nil {
			t.Errorf("private %s was accepted", name)
		}
	}
	for name, data := range map[string][]byte{
		"P-384": public(&p384.PublicKey), "RSA": public(&rsaKey.PublicKey), "private half": goodPrivate,
		"two keys": append(good, good...), "nothing": nil, "text": []byte("hello"),
	} {
		if _, err := LoadPublic(data); err == nil {
			t.Errorf("public %s was accepted", name)
		}
	}
	if _, _, err := Generate("rsa", nil); err == nil {
		t.Error("an RSA key was made")
	}
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := LoadPrivate(private(ed), nil); err != nil {
		t.Error(err)
	}
}

// A signature covers the payload's type, and no payload is valid as a
// statement about an artifact.
func TestSignPayload(t *testing.T) {
	for _, alg := range []Algorithm{P256, Ed25519} {
		private, _, err := Generate(alg, nil)
		if err != nil {
			t.Fatal(err)
		}
		key, err := LoadPrivate(private, nil)
		if err != nil {
			t.Fatal(err)
		}
		sig, err := key.SignPayload("a", []byte("payload"))
		if err != nil {
			t.Fatal(err)
		}
		if err := key.Public().VerifyPayload("a", []byte("payload"), sig); err != nil {
			t.Errorf("%s: %v", alg, err)
		}
		if err := key.Public().VerifyPayload("b", []byte("payload"), sig); err == nil {
			t.Errorf("%s: another type passes", alg)
		}
		if err := key.Public().VerifyPayload("a", []byte("Payload"), sig); err == nil {
			t.Errorf("%s: another payload passes", alg)
		}
		if _, err := key.SignPayload("application/vnd.in-toto+json", []byte("{}")); err == nil {
			t.Errorf("%s: a statement was signed as a payload", alg)
		}
	}
}
