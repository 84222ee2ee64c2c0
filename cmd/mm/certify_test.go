package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/rogpeppe/go-internal/testscript"
	"oras.land/oras-go/v2/content"

	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/registry/sign"
	"mm-abi.org/mm/registry/sigstore/sigstoretest"
)

// scriptTest is the part of testing.TB that a script offers.
type scriptTest struct{ ts *testscript.TestScript }

func (s scriptTest) Helper()          {}
func (s scriptTest) Fatal(all ...any) { s.ts.Fatalf("%s", fmt.Sprint(all...)) }

// certifyCommand signs with certificates of the script's private Sigstore:
//
//	certify root FILE                      its trusted root
//	certify blob FILE BUNDLE [WRONG]       a signature over a file
//	certify layout DIR TYPE PREDICATE [WRONG]  a statement about every manifest of a layout
//	certify serve FILE VERSION [WRONG]     its services, until the script ends: their signing configuration,
//	                                       a token in FILE.token, and the environment of GitHub Actions
//
// WRONG is a part that is wrong: subject, issuer, sct, set, proof, tree, expired, early, digest.
func certifyCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: certify root|blob|layout|serve FILE …")
	}
	world, ok := ts.Value(worldKey{}).(**sigstoretest.World)
	if !ok {
		ts.Fatalf("no world")
	}
	if *world == nil {
		*world = sigstoretest.New(scriptTest{ts}, time.Now())
	}
	w := *world
	wrong := ""
	switch path := ts.MkAbs(args[1]); args[0] {
	case "root":
		ts.Check(os.WriteFile(path, w.Root(), 0o644))
	case "blob":
		if len(args) > 3 {
			wrong = args[3]
		}
		data, err := os.ReadFile(path)
		ts.Check(err)
		s := scriptSigning(wrong)
		s.Message = data
		ts.Check(os.WriteFile(ts.MkAbs(args[2]), w.Bundle(s), 0o644))
	case "serve":
		if len(args) > 3 {
			wrong = args[3]
		}
		version, err := strconv.Atoi(args[2])
		ts.Check(err)
		services, stop := w.Serve(time.Now())
		ts.Defer(stop)
		services.Break(scriptSigning(wrong), nil)
		ts.Check(os.WriteFile(path, services.Config(version == 2, version), 0o644))
		ts.Check(os.WriteFile(path+".token", []byte(services.Token("sigstore", time.Minute)), 0o600))
		ts.Check(os.WriteFile(path+".expired", []byte(services.Token("sigstore", -time.Minute)), 0o600))
		ts.Setenv("ACTIONS_ID_TOKEN_REQUEST_URL", services.URL+"/token?job=1")
		ts.Setenv("ACTIONS_ID_TOKEN_REQUEST_TOKEN", "request-secret")
	case "layout":
		if len(args) > 4 {
			wrong = args[4]
		}
		store, err := registry.Open(path, registry.Options{MustExist: true})
		ts.Check(err)
		defer store.Close()
		data, err := os.ReadFile(path + "/index.json")
		ts.Check(err)
		var index ocispec.Index
		ts.Check(json.Unmarshal(data, &index))
		for _, d := range index.Manifests {
			certifyTree(ts, store, w, d, args[2], args[3], wrong)
		}
	}
}

// worldKey is the key of a script's private Sigstore.
type worldKey struct{}

// scriptSigning returns a signing with a part that is wrong.
func scriptSigning(wrong string) sigstoretest.Signing {
	s := sigstoretest.Signing{
		Subject: "https://forge.test/org/repo/.github/workflows/release.yml@refs/tags/v1", Issuer: "https://token.test",
		At: time.Now().Add(-time.Hour), Extensions: map[int]string{17: "42"},
	}
	switch wrong {
	case "subject":
		s.Subject = "https://forge.test/fork/repo/.github/workflows/release.yml@refs/tags/v1"
	case "issuer":
		s.Issuer = "https://other.test"
	case "sct":
		s.NoTimestamps = true
	case "set":
		s.ForeignPromise = true
	case "proof":
		s.OtherLeaf = true
	case "tree":
		s.OtherTree = true
	case "expired":
		s.NotAfter = s.At.Add(-time.Second)
	case "early":
		s.At = time.Now().Add(time.Hour)
	}
	return s
}

// certifyTree attaches a statement to a manifest and to those below it.
func certifyTree(ts *testscript.TestScript, store *registry.Store, w *sigstoretest.World, d ocispec.Descriptor, typ, predicate, wrong string) {
	ctx := context.Background()
	data, err := content.FetchAll(ctx, store, d)
	ts.Check(err)
	var m struct {
		Manifests []ocispec.Descriptor `json:"manifests"`
		Subject   *ocispec.Descriptor  `json:"subject"`
	}
	ts.Check(json.Unmarshal(data, &m))
	if m.Subject != nil {
		return
	}
	for _, c := range m.Manifests {
		certifyTree(ts, store, w, c, typ, predicate, wrong)
	}
	s := scriptSigning(wrong)
	about := d.Digest.Encoded()
	if wrong == "digest" {
		about = fmt.Sprintf("%x", sha256.Sum256(nil))
	}
	s.Payload = fmt.Appendf(nil, `{"_type":"https://in-toto.io/Statement/v1","subject":[{"digest":{"sha256":%q}}],"predicateType":%q,"predicate":%s}`, about, typ, predicate)
	push := func(mediaType string, data []byte) ocispec.Descriptor {
		one := content.NewDescriptorFromBytes(mediaType, data)
		if err := store.Push(ctx, one, bytes.NewReader(data)); err != nil {
			ok, err := store.Exists(ctx, one)
			if !ok || err != nil {
				ts.Fatalf("pushing %s: %v", one.Digest, err)
			}
		}
		return one
	}
	layer, config := push(sign.BundleMediaType, w.Bundle(s)), push(ocispec.MediaTypeEmptyJSON, []byte("{}"))
	manifest, err := json.Marshal(ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, ArtifactType: sign.BundleMediaType,
		Config: config, Layers: []ocispec.Descriptor{layer}, Subject: &ocispec.Descriptor{MediaType: d.MediaType, Digest: d.Digest, Size: d.Size},
		Annotations: map[string]string{"dev.sigstore.bundle.content": "dsse-envelope", "dev.sigstore.bundle.predicateType": typ},
	})
	ts.Check(err)
	push(ocispec.MediaTypeImageManifest, manifest)
}
