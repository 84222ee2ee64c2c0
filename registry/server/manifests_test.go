package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/registry/artifact"
)

// TestManifests: Pushing and Pulling Manifests.
func TestManifests(t *testing.T) {
	s := start(t, Options{})
	data, d := s.image("a", nil, "one", "two")
	a := s.want("201", "PUT", "/v2/a/manifests/v1", data, asImage)
	if a.header.Get("Location") != "/v2/a/manifests/"+d.String() || a.header.Get("Docker-Content-Digest") != d.String() || a.header.Get("OCI-Subject") != "" {
		t.Errorf("%v", a.header)
	}
	s.want("201", "PUT", "/v2/a/manifests/"+d.String(), data, asImage)
	for _, ref := range []string{"v1", d.String()} {
		for _, method := range []string{"GET", "HEAD"} {
			a := s.want("200", method, "/v2/a/manifests/"+ref, nil)
			if a.header.Get("Content-Type") != ocispec.MediaTypeImageManifest || a.header.Get("Docker-Content-Digest") != d.String() ||
				a.header.Get("Content-Length") != fmt.Sprint(len(data)) || method == "GET" && !bytes.Equal(a.body, data) {
				t.Errorf("%s %s: %v", method, ref, a.header)
			}
		}
	}
	s.want("404 MANIFEST_UNKNOWN", "GET", "/v2/a/manifests/v2", nil)
	s.want("404 MANIFEST_UNKNOWN", "GET", "/v2/b/manifests/v1", nil)
	s.want("404 MANIFEST_UNKNOWN", "GET", "/v2/b/manifests/"+d.String(), nil)
	s.want("404 MANIFEST_UNKNOWN", "GET", "/v2/a/manifests/"+digest.FromString("two").String(), nil)
	s.want("400 DIGEST_INVALID", "GET", "/v2/a/manifests/sha256:baddigeststring", nil)
	s.want("400 DIGEST_INVALID", "PUT", "/v2/a/manifests/sha256:baddigeststring", data, asImage)
	s.want("400 DIGEST_INVALID", "PUT", "/v2/a/manifests/"+d.String(), append(data, ' '), asImage)
	s.want("404 MANIFEST_BLOB_UNKNOWN", "PUT", "/v2/b/manifests/v1", data, asImage)
	s.want("415 MANIFEST_INVALID", "PUT", "/v2/a/manifests/v1", data, "Content-Type: text/plain")
	s.want("415 MANIFEST_INVALID", "PUT", "/v2/a/manifests/v1", data)
	s.want("400 MANIFEST_INVALID", "PUT", "/v2/a/manifests/v1", data, asIndex)
	s.want("400 MANIFEST_INVALID", "PUT", "/v2/a/manifests/v1", []byte("{"), asImage)
	s.want("400 MANIFEST_INVALID", "PUT", "/v2/a/manifests/v1", []byte(`{"schemaVersion":2}`), asImage)
	s.want("400 MANIFEST_INVALID", "PUT", "/v2/a/manifests/-x", data, asImage)
	s.want("413 MANIFEST_INVALID", "PUT", "/v2/a/manifests/v1", bytes.Repeat([]byte(" "), maxManifest+1), asImage)

	// Tags with the digest, sha512, empty and nested indexes, no layers,
	// unknown fields, embedded data, layers that lie elsewhere, 4 MiB.
	d512 := digest.SHA512.FromBytes(data)
	a = s.want("201", "PUT", "/v2/a/manifests/"+d512.String()+"?tag=x&tag=y", data, asImage)
	if diff := cmp.Diff([]string{"x", "y"}, a.header.Values("OCI-Tag")); diff != "" {
		t.Error(diff)
	}
	if got := s.want("200", "GET", "/v2/a/manifests/y", nil); got.header.Get("Docker-Content-Digest") != d512.String() {
		t.Errorf("%v", got.header)
	}
	index := func(children ...ocispec.Descriptor) ([]byte, ocispec.Descriptor) {
		data, err := json.Marshal(ocispec.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex, Manifests: append([]ocispec.Descriptor{}, children...)})
		if err != nil {
			t.Fatal(err)
		}
		return data, blobDesc(ocispec.MediaTypeImageIndex, data)
	}
	empty, emptyDesc := index()
	s.want("201", "PUT", "/v2/a/manifests/empty", empty, asIndex)
	inner, innerDesc := index(blobDesc(ocispec.MediaTypeImageManifest, data))
	s.want("201", "PUT", "/v2/a/manifests/inner", inner, asIndex)
	outer, _ := index(innerDesc, emptyDesc)
	s.want("201", "PUT", "/v2/a/manifests/outer", outer, asIndex)
	none, _ := index(blobDesc(ocispec.MediaTypeImageManifest, []byte("none")))
	s.want("404 MANIFEST_BLOB_UNKNOWN", "PUT", "/v2/a/manifests/none", none, asIndex)
	for name, edit := range map[string]func(*ocispec.Manifest){
		"bare": nil,
		"data": func(m *ocispec.Manifest) { m.Config.Data = []byte("{}") },
		"elsewhere": func(m *ocispec.Manifest) {
			far := blobDesc("application/vnd.oci.image.layer.nondistributable.v1.tar+gzip", []byte("far"))
			far.URLs = []string{"http://127.0.0.1:1/far"}
			m.Layers = append(m.Layers, far)
		},
		"large": func(m *ocispec.Manifest) {
			m.Annotations = map[string]string{}
			for i := range 390 {
				m.Annotations[fmt.Sprint("note-", i)] = strings.Repeat("A", 10000)
			}
		},
	} {
		data, _ := s.image("a", edit)
		s.want("201", "PUT", "/v2/a/manifests/"+name, data, asImage)
		s.want("200", "GET", "/v2/a/manifests/"+name, nil)
	}
	extra := bytes.Replace(data, []byte("{"), []byte(`{"org.example.extra":{"x":[1]},`), 1)
	s.want("201", "PUT", "/v2/a/manifests/extra", extra, asImage)
	s.sound()
}

// TestTags: Listing Tags.
func TestTags(t *testing.T) {
	s := start(t, Options{})
	s.want("404 NAME_UNKNOWN", "GET", "/v2/a/tags/list", nil)
	data, d := s.image("a", nil)
	s.want("201", "PUT", "/v2/a/manifests/"+d.String(), data, asImage)
	list := func(query string) ([]string, string) {
		t.Helper()
		a := s.want("200", "GET", "/v2/a/tags/list"+query, nil)
		var doc struct {
			Name string
			Tags []string
		}
		if err := json.Unmarshal(a.body, &doc); err != nil || doc.Name != "a" || doc.Tags == nil {
			t.Fatalf("%s: %v", a.body, err)
		}
		return doc.Tags, a.header.Get("Link")
	}
	if tags, _ := list(""); len(tags) != 0 {
		t.Errorf("without tags: %v", tags)
	}
	for _, tag := range []string{"b", "a", "_x", "c.1", "B", strings.Repeat("z", 128)} {
		s.want("201", "PUT", "/v2/a/manifests/"+tag, data, asImage)
	}
	all := []string{"B", "_x", "a", "b", "c.1", strings.Repeat("z", 128)}
	tags, link := list("")
	if diff := cmp.Diff(all, tags); diff != "" || link != "" {
		t.Error(diff, link)
	}
	var paged []string
	for query := "?n=4"; query != ""; {
		tags, link := list(query)
		paged = append(paged, tags...)
		_, query, _ = strings.Cut(strings.TrimSuffix(link, `>; rel="next"`), "/list")
	}
	if diff := cmp.Diff(all, paged); diff != "" {
		t.Error(diff)
	}
	if tags, _ := list("?last=_x"); !slices.Equal(tags, all[2:]) {
		t.Errorf("after _x: %v", tags)
	}
	if tags, _ := list("?last=aa"); !slices.Equal(tags, all[3:]) {
		t.Errorf("after a missing tag: %v", tags)
	}
	if tags, link := list("?n=0"); len(tags) != 0 || link != "" {
		t.Errorf("n=0: %v %q", tags, link)
	}
	s.want("400 UNSUPPORTED", "GET", "/v2/a/tags/list?n=x", nil)
	s.want("400 UNSUPPORTED", "GET", "/v2/a/tags/list?n=-1", nil)
	if a := s.want("200", "GET", "/v2/_catalog", nil); string(a.body) != `{"repositories":["a"]}` {
		t.Errorf("catalog: %s", a.body)
	}
}

// TestReferrers: Listing Referrers.
func TestReferrers(t *testing.T) {
	s := start(t, Options{})
	list := func(repo string, d digest.Digest, query string) []ocispec.Descriptor {
		t.Helper()
		a := s.want("200", "GET", "/v2/"+repo+"/referrers/"+d.String()+query, nil)
		var idx ocispec.Index
		if err := json.Unmarshal(a.body, &idx); err != nil || idx.SchemaVersion != 2 || idx.MediaType != ocispec.MediaTypeImageIndex || idx.Manifests == nil || a.header.Get("Content-Type") != idx.MediaType {
			t.Errorf("%s: %v", a.body, err)
		}
		if applied := a.header.Get("OCI-Filters-Applied"); (query != "") != (applied == "artifactType") {
			t.Errorf("filters applied: %q", applied)
		}
		return idx.Manifests
	}
	data, subject := s.image("a", nil, "subject")
	if got := list("a", subject, ""); len(got) != 0 {
		t.Errorf("of nothing: %v", got)
	}
	var made []digest.Digest
	for i, artifactType := range []string{"x/one", "x/two", ""} {
		ref, d := s.image("a", func(m *ocispec.Manifest) {
			m.ArtifactType = artifactType
			m.Annotations = map[string]string{"n": fmt.Sprint(i)}
			m.Subject = &ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: subject, Size: int64(len(data))}
		})
		// The subject is pushed after the first of its referrers.
		a := s.want("201", "PUT", "/v2/a/manifests/"+d.String(), ref, asImage)
		if a.header.Get("OCI-Subject") != subject.String() {
			t.Errorf("OCI-Subject %q", a.header.Get("OCI-Subject"))
		}
		made = append(made, d)
		if i == 0 {
			s.want("201", "PUT", "/v2/a/manifests/v1", data, asImage)
		}
	}
	got := list("a", subject, "")
	if len(got) != 3 {
		t.Fatalf("%d referrers", len(got))
	}
	for _, desc := range got {
		i := slices.Index(made, desc.Digest)
		want := []string{"x/one", "x/two", "application/vnd.oci.empty.v1+json"}[i]
		if desc.ArtifactType != want || desc.Annotations["n"] != fmt.Sprint(i) || desc.MediaType != ocispec.MediaTypeImageManifest {
			t.Errorf("%+v", desc)
		}
	}
	if got := list("a", subject, "?artifactType=x/two"); len(got) != 1 || got[0].Digest != made[1] {
		t.Errorf("filtered: %v", got)
	}
	if got := list("other", subject, ""); len(got) != 0 {
		t.Errorf("in another repository: %v", got)
	}
	s.want("202", "DELETE", "/v2/a/manifests/"+made[0].String(), nil)
	if got := list("a", subject, ""); len(got) != 2 {
		t.Errorf("after deletion: %d", len(got))
	}
	s.want("400 DIGEST_INVALID", "GET", "/v2/a/referrers/x", nil)
	s.sound()
}

// TestReferrersStay: a referrer that a client pushed to one repository is not shown
// by another repository with the same subject, unless it was pushed there too; one
// that was attached to the store is shown wherever its subject is.
func TestReferrersStay(t *testing.T) {
	ctx := context.Background()
	s := start(t, Options{})
	data, subject := s.image("a", nil, "subject")
	s.image("b", nil, "subject")
	about := &ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: subject, Size: int64(len(data))}
	attached := func(m *ocispec.Manifest) { m.ArtifactType, m.Subject = "x/sig", about }
	early, first := s.image("a", attached, "first") // before its subject
	s.want("201", "PUT", "/v2/a/manifests/"+first.String(), early, asImage)
	for _, repo := range []string{"a", "b"} {
		s.want("201", "PUT", "/v2/"+repo+"/manifests/v1", data, asImage)
	}
	late, second := s.image("a", attached, "second")
	s.want("201", "PUT", "/v2/a/manifests/"+second.String(), late, asImage)
	nested, third := s.image("a", func(m *ocispec.Manifest) {
		m.Subject = &ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: second, Size: int64(len(late))}
	}, "third")
	s.want("201", "PUT", "/v2/a/manifests/"+third.String(), nested, asImage)
	want := func(repo string, n int, shown string) {
		t.Helper()
		var idx ocispec.Index
		a := s.want("200", "GET", "/v2/"+repo+"/referrers/"+subject.String(), nil)
		if err := json.Unmarshal(a.body, &idx); err != nil || len(idx.Manifests) != n {
			t.Errorf("%s lists %d referrers, want %d (%v)", repo, len(idx.Manifests), n, err)
		}
		for _, d := range []digest.Digest{first, second, third} {
			s.want(shown, "GET", "/v2/"+repo+"/manifests/"+d.String(), nil)
		}
	}
	want("a", 2, "200")
	want("b", 0, "404")
	layer := digest.FromString("second").String()
	s.want("200", "GET", "/v2/a/blobs/"+layer, nil)
	s.want("404", "GET", "/v2/b/blobs/"+layer, nil)
	s.want("202", "POST", "/v2/b/blobs/uploads/?mount="+layer+"&from=b", nil)
	local, err := s.store.AddBytes(ctx, ocispec.MediaTypeImageManifest, slices.Concat(late, []byte(" ")))
	if err != nil {
		t.Fatal(err)
	}
	want("a", 3, "200")
	want("b", 1, "404")
	s.want("200", "GET", "/v2/b/manifests/"+local.Digest.String(), nil)
	s.image("b", attached, "second")
	s.want("201", "PUT", "/v2/b/manifests/"+second.String(), late, asImage)
	var idx ocispec.Index
	if a := s.want("200", "GET", "/v2/b/referrers/"+subject.String(), nil); json.Unmarshal(a.body, &idx) != nil || len(idx.Manifests) != 2 {
		t.Errorf("pushed to b as well: %s", a.body)
	}
	// Without tags nothing holds the referrers, and their records go with them.
	for _, repo := range []string{"a", "b"} {
		s.want("202", "DELETE", "/v2/"+repo+"/manifests/"+subject.String(), nil)
	}
	if _, err := s.store.GC(ctx, registry.GCOptions{Grace: -1}); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(s.store.Dir(), ".mm", "repo", "_confined", "*"))
	if err != nil || len(left) != 0 {
		t.Errorf("records after gc: %v, %v", left, err)
	}
	s.sound()
}

// TestLocalTags: local tags of the store are served, with their referrers; a
// deletion through the API hides an artifact until it is tagged again.
func TestLocalTags(t *testing.T) {
	ctx := context.Background()
	s := start(t, Options{})
	layer, err := s.store.AddBytes(ctx, "application/vnd.cncf.model.weight.v1.raw", []byte("weights"))
	if err != nil {
		t.Fatal(err)
	}
	desc, err := artifact.Pack(ctx, s.store, artifact.Artifact{Name: "p-lite", Version: "0.1.0", Layers: []artifact.Layer{{Path: "core.gguf", Descriptor: layer}}})
	if err == nil {
		err = s.store.Tag(ctx, desc, "mm/p-lite:0.1.0")
	}
	if err != nil {
		t.Fatal(err)
	}
	sig := ocispec.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, ArtifactType: "x/sig",
		Config: blobDesc("application/vnd.oci.empty.v1+json", []byte("{}")), Layers: []ocispec.Descriptor{}, Subject: &desc}
	if _, err := s.store.AddBytes(ctx, sig.Config.MediaType, []byte("{}")); err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(sig)
	if err != nil {
		t.Fatal(err)
	}
	sigDesc, err := s.store.AddBytes(ctx, sig.MediaType, data)
	if err != nil {
		t.Fatal(err)
	}
	paths := []string{"manifests/0.1.0", "manifests/" + desc.Digest.String(), "blobs/" + layer.Digest.String(), "manifests/" + sigDesc.Digest.String()}
	for _, path := range paths {
		s.want("200", "GET", "/v2/mm/p-lite/"+path, nil)
		s.want("404", "HEAD", "/v2/mm/other/"+path, nil)
	}
	if a := s.want("200", "GET", "/v2/mm/p-lite/referrers/"+desc.Digest.String(), nil); !strings.Contains(string(a.body), sigDesc.Digest.String()) {
		t.Errorf("referrers: %s", a.body)
	}
	s.want("202", "DELETE", "/v2/mm/p-lite/blobs/"+layer.Digest.String(), nil)
	s.want("404", "HEAD", "/v2/mm/p-lite/blobs/"+layer.Digest.String(), nil)
	if err := s.store.Tag(ctx, desc, "mm/p-lite:0.1.1"); err != nil {
		t.Fatal(err)
	}
	s.want("200", "HEAD", "/v2/mm/p-lite/blobs/"+layer.Digest.String(), nil)
	ro := serve(t, s.store, Options{ReadOnly: true})
	ro.want("200", "GET", "/v2/mm/p-lite/manifests/0.1.0", nil)
	ro.want("405 UNSUPPORTED", "POST", "/v2/mm/p-lite/blobs/uploads/", nil)
	ro.want("405 UNSUPPORTED", "PUT", "/v2/mm/p-lite/manifests/x", data, asImage)
	ro.want("405 UNSUPPORTED", "DELETE", "/v2/mm/p-lite/manifests/0.1.0", nil)
}
