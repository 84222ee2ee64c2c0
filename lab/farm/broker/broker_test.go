package broker_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nkeys"

	"mm-abi.org/mm/lab/farm"
	"mm-abi.org/mm/lab/farm/broker"
)

// Beyond this machine, a server wants TLS and credentials.
func TestRefused(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct {
		o    broker.Options
		want string
	}{
		"open":      {broker.Options{Dir: dir, Listen: "0.0.0.0:0"}, "beyond this machine"},
		"no TLS":    {broker.Options{Dir: dir, Listen: "0.0.0.0:0", Token: "x"}, "beyond this machine"},
		"no token":  {broker.Options{Dir: dir, Listen: "0.0.0.0:0", Cert: "c", Key: "k"}, "beyond this machine"},
		"name":      {broker.Options{Dir: dir, Listen: "nats.example:0", Token: "x"}, "beyond this machine"},
		"no folder": {broker.Options{Listen: "127.0.0.1:0"}, "without a folder"},
		"address":   {broker.Options{Dir: dir, Listen: "127.0.0.1"}, "HOST:PORT"},
		"port":      {broker.Options{Dir: dir, Listen: "127.0.0.1:65536"}, "HOST:PORT"},
		"both":      {broker.Options{Dir: dir, Listen: "127.0.0.1:0", Token: "x", Users: []string{"U"}}, "not both"},
		"secret":    {broker.Options{Dir: dir, Listen: "127.0.0.1:0", Name: "a", Cluster: broker.Cluster{Name: "c", Listen: "127.0.0.1:0"}}, "a secret"},
		"cluster":   {broker.Options{Dir: dir, Listen: "127.0.0.1:0", Name: "a", Cluster: broker.Cluster{Name: "c", Listen: "0.0.0.0:0", Secret: "s"}}, "a certificate"},
		"route":     {broker.Options{Dir: dir, Listen: "127.0.0.1:0", Name: "a", Cluster: broker.Cluster{Name: "c", Listen: "127.0.0.1:0", Secret: "s", Routes: "x"}}, "HOST:PORT"},
	} {
		if b, err := broker.Start(c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
			if b != nil {
				b.Close()
			}
		}
	}
}

// A client is admitted by its token, its nkey or its certificate, and refused otherwise.
func TestAdmission(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	pair, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	seed, _ := pair.Seed()
	public, _ := pair.PublicKey()
	stranger, _ := nkeys.CreateUser()
	other, _ := stranger.Seed()
	cert, key := certificate(t)
	certFile, keyFile := file("cert", cert), file("key", key)
	good, bad := file("token", []byte("secret\n")), file("bad", []byte("guess"))
	mine, theirs := file("seed", seed), file("other", other)
	for name, c := range map[string]struct {
		o    broker.Options
		in   farm.Options
		want bool
	}{
		"token":          {broker.Options{Token: "secret"}, farm.Options{Token: good}, true},
		"wrong token":    {broker.Options{Token: "secret"}, farm.Options{Token: bad}, false},
		"no token":       {broker.Options{Token: "secret"}, farm.Options{}, false},
		"nkey":           {broker.Options{Users: []string{public}}, farm.Options{Seed: mine}, true},
		"other nkey":     {broker.Options{Users: []string{public}}, farm.Options{Seed: theirs}, false},
		"TLS":            {broker.Options{Token: "secret", Cert: certFile, Key: keyFile}, farm.Options{Token: good, CA: certFile}, true},
		"TLS, stranger":  {broker.Options{Token: "secret", Cert: certFile, Key: keyFile}, farm.Options{Token: good, CA: file("ca", first(certificate(t)))}, false},
		"certificate":    {broker.Options{Cert: certFile, Key: keyFile, CA: certFile}, farm.Options{CA: certFile, Cert: certFile, Key: keyFile}, true},
		"no certificate": {broker.Options{Cert: certFile, Key: keyFile, CA: certFile}, farm.Options{CA: certFile}, false},
	} {
		t.Run(name, func(t *testing.T) {
			c.o.Dir, c.o.Listen = t.TempDir(), "127.0.0.1:0"
			b, err := broker.Start(c.o)
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			wait := 20 * time.Second
			if !c.want {
				wait = time.Second
			}
			ctx, cancel := context.WithTimeout(t.Context(), wait)
			defer cancel()
			c.in.Servers = b.URL()
			q, err := farm.Open(ctx, c.in)
			if err == nil {
				defer q.Close()
			}
			if (err == nil) != c.want {
				t.Errorf("got %v, want admission %t", err, c.want)
			}
		})
	}
}

func first(a, _ []byte) []byte { return a }

// certificate returns a certificate of 127.0.0.1 that is its own authority, and its key.
func certificate(t *testing.T) (cert, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: raw})
}
