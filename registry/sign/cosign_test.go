package sign

import (
	"context"
	"errors"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	ggcr "github.com/google/go-containerregistry/pkg/registry"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/registry/remote"
)

const cosignPassword = "between the two"

// cosign runs the cosign found on PATH, offline, in dir.
func cosign(t *testing.T, dir string, args ...string) error {
	t.Helper()
	cmd := exec.Command("cosign", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "COSIGN_PASSWORD="+cosignPassword, "HOME="+dir, "DOCKER_CONFIG="+dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Logf("cosign %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return err
}

// needCosign skips the test without cosign v3.
func needCosign(t *testing.T) {
	t.Helper()
	out, err := exec.Command("cosign", "version").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "v3.") {
		t.Skip("skipped: no cosign v3 on PATH")
	}
}

// serve runs a registry in memory and returns host:port of it.
func serve(t *testing.T, referrers bool) string {
	t.Helper()
	srv := httptest.NewServer(ggcr.New(ggcr.Logger(log.New(io.Discard, "", 0)), ggcr.WithReferrersSupport(referrers)))
	t.Cleanup(srv.Close)
	return strings.TrimPrefix(srv.URL, "http://")
}

// upload puts an index over two artifacts into a new repository.
func upload(t *testing.T, host, name string) (*remote.Repository, []ocispec.Descriptor) {
	t.Helper()
	repo, err := remote.NewRepository(host + "/" + name)
	if err != nil {
		t.Fatal(err)
	}
	repo.PlainHTTP = true
	repo.SkipReferrersGC = true
	s := openStore(t)
	a, b := putManifest(t, s, "laptop"), putManifest(t, s, "mobile")
	index := putIndex(t, s, a, b)
	if err := oras.CopyGraph(context.Background(), s, repo, index, oras.CopyGraphOptions{}); err != nil {
		t.Fatal(err)
	}
	return repo, []ocispec.Descriptor{a, b, index}
}

// keyFiles writes a pair as files that cosign reads.
func keyFiles(t *testing.T, dir, name string, alg Algorithm) key {
	t.Helper()
	private, public, err := Generate(alg, []byte(cosignPassword))
	if err != nil {
		t.Fatal(err)
	}
	for file, data := range map[string][]byte{name + ".key": private, name + ".pub": public} {
		if err := os.WriteFile(filepath.Join(dir, file), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return loadFiles(t, dir, name)
}

// loadFiles reads the pair that mm or cosign wrote.
func loadFiles(t *testing.T, dir, name string) key {
	t.Helper()
	private, err := os.ReadFile(filepath.Join(dir, name+".key"))
	if err != nil {
		t.Fatal(err)
	}
	public, err := os.ReadFile(filepath.Join(dir, name+".pub"))
	if err != nil {
		t.Fatal(err)
	}
	k, err := LoadPrivate(private, func() ([]byte, error) { return []byte(cosignPassword), nil })
	if err != nil {
		t.Fatal(err)
	}
	return key{private: k, pem: public}
}

var (
	cosignVerify = []string{"verify", "--insecure-ignore-tlog=true", "--allow-insecure-registry", "--key"}
	cosignSign   = []string{"sign", "-y", "--tlog-upload=false", "--use-signing-config=false", "--allow-insecure-registry", "--key"}
	cosignAttest = []string{"attest", "-y", "--tlog-upload=false", "--use-signing-config=false", "--allow-insecure-registry", "--type", "https://example.org/evil/v1", "--predicate", "predicate.json", "--key"}
)

// TestCosign verifies each side's signatures with the other, in registries
// with and without the referrers API, with key files of both tools.
func TestCosign(t *testing.T) {
	needCosign(t)
	for name, referrers := range map[string]bool{"referrers API": true, "referrers tag": false} {
		for _, maker := range []string{"mm p256", "mm ed25519", "cosign"} {
			t.Run(name+", key by "+maker, func(t *testing.T) {
				dir := t.TempDir()
				var k key
				switch maker {
				case "cosign":
					if err := cosign(t, dir, "generate-key-pair"); err != nil {
						t.Fatal(err)
					}
					k = loadFiles(t, dir, "cosign")
				default:
					k = keyFiles(t, dir, "cosign", Algorithm(strings.TrimPrefix(maker, "mm ")))
				}
				keyFiles(t, dir, "other", P256)
				exchange(t, dir, serve(t, referrers), k)
			})
		}
	}
}

// exchange has mm sign and cosign verify, and the reverse.
func exchange(t *testing.T, dir, host string, k key) {
	ctx := context.Background()
	trust := policy(map[string]key{"release": k})
	ref := func(repo *remote.Repository, d ocispec.Descriptor) string {
		return repo.Reference.Registry + "/" + repo.Reference.Repository + "@" + d.Digest.String()
	}

	ours, nodes := upload(t, host, "ours")
	if err := cosign(t, dir, append(cosignVerify, "cosign.pub", ref(ours, nodes[0]))...); err == nil {
		t.Error("cosign verifies what nobody signed")
	}
	made, err := Sign(ctx, ours, nodes[2], k.private, Options{})
	if err != nil || len(made) != 3 {
		t.Fatal(len(made), err)
	}
	for _, d := range nodes {
		if err := cosign(t, dir, append(cosignVerify, "cosign.pub", ref(ours, d))...); err != nil {
			t.Errorf("cosign does not verify our signature of %s", d.MediaType)
		}
		if _, err := verify(t, trust, ours, repository, d); err != nil {
			t.Error(err)
		}
	}
	if err := cosign(t, dir, append(cosignVerify, "other.pub", ref(ours, nodes[2]))...); err == nil {
		t.Error("cosign verifies with the wrong key")
	}

	theirs, nodes := upload(t, host, "theirs")
	if err := cosign(t, dir, append(append(cosignSign, "cosign.key"), ref(theirs, nodes[2]))...); err != nil {
		t.Fatal(err)
	}
	if _, err := verify(t, trust, theirs, repository, nodes[2]); err != nil {
		t.Errorf("cosign's signature: %v", err)
	}
	if _, err := verify(t, trust, theirs, repository, nodes[0]); !errors.Is(err, &Refusal{Reason: Unsigned}) {
		t.Errorf("a child that cosign did not sign: %v, want %s", err, Unsigned)
	}

	if err := os.WriteFile(filepath.Join(dir, "predicate.json"), []byte(`{"a":1}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := cosign(t, dir, append(append(cosignAttest, "cosign.key"), ref(theirs, nodes[1]))...); err != nil {
		t.Fatal(err)
	}
	if _, err := verify(t, trust, theirs, repository, nodes[1]); !errors.Is(err, &Refusal{Reason: AttestationOnly}) {
		t.Errorf("cosign's attestation: %v, want %s", err, AttestationOnly)
	}
	if err := cosign(t, dir, append(cosignVerify, "cosign.pub", ref(theirs, nodes[1]))...); err != nil {
		t.Log("cosign does not take this attestation for a signature (or cannot verify what it signs with Ed25519)")
	}
}

// TestCosignLayout has cosign verify an image layout that mm signed, with no
// registry at all.
func TestCosignLayout(t *testing.T) {
	needCosign(t)
	dir := t.TempDir()
	k := keyFiles(t, dir, "cosign", P256)
	keyFiles(t, dir, "other", P256)
	s := openStore(t)
	desc := putManifest(t, s, "laptop")
	if err := s.Tag(context.Background(), desc, "laptop:1.0.0"); err != nil {
		t.Fatal(err)
	}
	local := []string{"verify", "--local-image", "--insecure-ignore-tlog=true", "--key"}
	if err := cosign(t, dir, append(local, "cosign.pub", s.Dir())...); err == nil {
		t.Error("cosign verifies a layout that nobody signed")
	}
	sign(t, s, desc, k)
	if err := cosign(t, dir, append(local, "cosign.pub", s.Dir())...); err != nil {
		t.Error("cosign does not verify our layout")
	}
	if err := cosign(t, dir, append(local, "other.pub", s.Dir())...); err == nil {
		t.Error("cosign verifies a layout with the wrong key")
	}
}
