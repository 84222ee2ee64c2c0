package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"

	"mm-abi.org/mm/cmd/console"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/registry/sign"
	"mm-abi.org/mm/workspace"
)

// Every reason to refuse has a diagnostic of its own and ends with exit code 4.
func TestEveryRefusalHasItsCode(t *testing.T) {
	seen := map[diag.Code]sign.Reason{}
	for _, reason := range []sign.Reason{
		sign.Threshold, sign.Revoked, sign.Expired, sign.Scope, sign.BadSignature, sign.OtherSubject, sign.UnknownKey, sign.AttestationOnly,
		sign.Malformed, sign.Unsigned, sign.NoRule, sign.AmbiguousRule, sign.Tampered, sign.Hostile, sign.OlderForm,
	} {
		var errs strings.Builder
		p := &program{Printer: console.Printer{Stdout: &bytes.Buffer{}, Stderr: &errs}}
		if code := p.exit(&sign.Refusal{Reason: reason, Repository: "a/b"}); code != diag.ExitRefused {
			t.Errorf("%s ends with %d", reason, code)
		}
		code := workspace.RefusalCode(reason)
		if other, ok := seen[code]; ok || code == "" {
			t.Errorf("%s and %s share %q", reason, other, code)
		}
		seen[code] = reason
		if !strings.Contains(errs.String(), string(code)) {
			t.Errorf("%s prints %q", reason, errs.String())
		}
	}
}

// An attestation releases nothing, and neither does a sound signature of
// something else that was attached by hand.
func TestRefusesWhatIsNoRelease(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: slow")
	}
	world(t)
	ctx := context.Background()
	w, err := workspace.Open(workspace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	store, err := w.Store()
	if err != nil {
		t.Fatal(err)
	}
	if _, errs, code := mm(t, "assemble", "builds/m-lite.graph.yaml", "--export", "gguf=fp16", "--force"); code != exitOK {
		t.Fatal(errs)
	}
	unsigned, err := store.Resolve(ctx, "m-lite:0.1.0")
	if err != nil {
		t.Fatal(err)
	}
	expect := func(code diag.Code) {
		t.Helper()
		_, errs, exit := mm(t, "run", "m-lite:0.1.0", "--max-tokens", "1")
		if exit != diag.ExitRefused || !strings.Contains(errs, string(code)) {
			t.Errorf("exit %d, want %d with %s: %s", exit, diag.ExitRefused, code, errs)
		}
	}
	other, err := store.Resolve(ctx, "m-lite:kept")
	if err != nil {
		t.Fatal(err)
	}
	expect(diag.Unsigned)
	attach(t, store, other, unsigned, func([]byte) []byte { return []byte("{") })
	expect(diag.BadBundle)

	attach(t, store, other, unsigned, func(bundle []byte) []byte {
		return rewritten(t, bundle, sign.ReleaseType, "https://example.org/test-result/v1")
	})
	expect(diag.AttestationOnly)

	attach(t, store, other, unsigned, nil)
	expect(diag.WrongSubject)
	attach(t, store, other, unsigned, func(bundle []byte) []byte {
		return rewritten(t, bundle, other.Digest.Encoded(), unsigned.Digest.Encoded())
	})
	expect(diag.BadSignature)
}

// rewritten replaces a text in the payload of a bundle.
func rewritten(t *testing.T, bundle []byte, from, to string) []byte {
	t.Helper()
	var doc map[string]any
	if err := json.Unmarshal(bundle, &doc); err != nil {
		t.Fatal(err)
	}
	envelope := doc["dsseEnvelope"].(map[string]any)
	payload, err := base64.StdEncoding.DecodeString(envelope["payload"].(string))
	if err != nil || !bytes.Contains(payload, []byte(from)) {
		t.Fatalf("%s, %v", payload, err)
	}
	payload = bytes.ReplaceAll(payload, []byte(from), []byte(to))
	envelope["payload"] = base64.StdEncoding.EncodeToString(payload)
	out, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// attach makes a referrer of to out of the signature of from, whose bundle
// change makes another of, if it is given.
func attach(t *testing.T, s *registry.Store, from, to ocispec.Descriptor, change func(bundle []byte) []byte) {
	t.Helper()
	ctx := context.Background()
	bundles, err := s.Referrers(ctx, from, sign.BundleMediaType)
	if err != nil || len(bundles) == 0 {
		t.Fatalf("no signature to take: %v", err)
	}
	r, err := s.Fetch(ctx, bundles[0])
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var m ocispec.Manifest
	if err := json.NewDecoder(r).Decode(&m); err != nil {
		t.Fatal(err)
	}
	m.Versioned, m.Subject = specs.Versioned{SchemaVersion: 2}, &to
	if change != nil {
		bundle, err := content.FetchAll(ctx, s, m.Layers[0])
		if err != nil {
			t.Fatal(err)
		}
		if m.Layers[0], err = s.AddBytes(ctx, m.Layers[0].MediaType, change(bundle)); err != nil {
			t.Fatal(err)
		}
	}
	data, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	desc := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: digest.FromBytes(data), Size: int64(len(data))}
	if err := s.Push(ctx, desc, bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
}
