package workspace_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/assemble"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/registry/sign"
	"mm-abi.org/mm/workspace"
	"mm-abi.org/mm/workspace/trust"
)

// Faults of the manifest are reported before a layer is fetched, and a refused
// artifact gets no name.
func TestPullRefuses(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t)
	reg := w.serve()
	put := func(c content, ref string, key int) {
		t.Helper()
		desc := w.pack(reg.store, c, "team/"+ref)
		if key >= 0 {
			w.sign(reg.store, desc, key)
		}
	}
	put(build("good", "1.0.0", ""), "other:1.0.0", 0)
	put(build("good", "1.0.0", ""), "good:2.0.0", 0)
	put(build("good", "1.0.1", ""), "good:unsigned", -1)
	strange := build("good", "1.1.0", "")
	put(strange, "good:1.1.0", 1)
	future := build("good", "1.2.0", "")
	future.notes[abi.AnnotationABI] = "mm-abi-9.0"
	put(future, "good:1.2.0", 0)
	plain := ocispec.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, Config: ocispec.DescriptorEmptyJSON}
	w.raw(reg.store, plain, "team/good:plain")
	traversal := build("good", "1.3.0", "")
	traversal.notes[abi.AnnotationTarget] = "x"
	w.evilIndex(reg.store, traversal, "../../../escaped", "team/good:1.3.0")
	put(build("good", "1.4.0", "laptop"), "good:1.4.0", 0)
	image := w.raw(reg.store, plain, "")
	attestation := image
	attestation.Platform = &ocispec.Platform{OS: "unknown", Architecture: "unknown"}
	foreign := map[string]ocispec.Index{
		"platforms": {Manifests: []ocispec.Descriptor{image, attestation}},
		"any":       {Manifests: []ocispec.Descriptor{{MediaType: "application/vnd.acme.thing", Digest: image.Digest, Size: image.Size}}},
		"nested":    {Manifests: []ocispec.Descriptor{w.raw(reg.store, ocispec.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex, Manifests: []ocispec.Descriptor{image}}, "")}},
		"empty":     {Manifests: []ocispec.Descriptor{}},
	}
	for name, index := range foreign {
		index.Versioned, index.MediaType = specs.Versioned{SchemaVersion: 2}, ocispec.MediaTypeImageIndex
		w.raw(reg.store, index, "team/good:"+name)
	}

	for _, c := range []struct {
		ref, target, as, want string
		skip                  bool
	}{
		{ref: "other:1.0.0", want: string(diag.IdentityDiffers)},
		{ref: "other:1.0.0", skip: true, want: string(diag.IdentityDiffers)},
		{ref: "other:1.0.0", as: "good:1.0.0", want: string(diag.IdentityDiffers)},
		{ref: "good:2.0.0", want: string(diag.IdentityDiffers)},
		{ref: "good:unsigned", want: string(sign.Unsigned)},
		{ref: "good:1.1.0", want: string(sign.UnknownKey)},
		{ref: "good:1.2.0", want: string(diag.UnknownABI)},
		{ref: "good:1.2.0", skip: true, want: string(diag.UnknownABI)},
		{ref: "good:plain", skip: true, want: string(diag.ForeignArtifact)},
		{ref: "good:platforms", skip: true, want: string(diag.ForeignArtifact)},
		{ref: "good:any", skip: true, want: string(diag.ForeignArtifact)},
		{ref: "good:nested", skip: true, want: string(diag.ForeignArtifact)},
		{ref: "good:empty", skip: true, want: string(diag.ForeignArtifact)},
		{ref: "good:1.3.0", skip: true, want: string(diag.HostileInput)},
		{ref: "good:1.4.0", target: "phone", want: string(diag.NoTarget)},
		{ref: "good:none", want: string(diag.NoArtifact)},
	} {
		reg.asked()
		ws := w.open(workspace.Options{})
		_, err := ws.Pull(ctx, reg.host+"/team/"+c.ref, workspace.PullOptions{Claim: workspace.Claim{Skip: c.skip}, Target: c.target, As: c.as, Out: "out"})
		w.wants(c.ref, err, c.want)
		if n := reg.asked(); n > 4 { // configs and bundles
			t.Errorf("%s: %d blobs were fetched before it was refused", c.ref, n)
		}
		if list, err := ws.List(ctx); err != nil || len(list) > 0 {
			t.Errorf("%s: %v, %v", c.ref, list, err)
		}
		if _, err := os.Lstat("out"); !os.IsNotExist(err) {
			t.Errorf("%s: out was made", c.ref)
		}
	}
	w.trust(filepath.Join(w.home, "trust.yaml"), "strict: true\n", "**", 0)
	_, err := w.open(workspace.Options{}).Pull(ctx, reg.host+"/team/good:1.4.0", workspace.PullOptions{Claim: workspace.Claim{Skip: true}})
	w.wants("strict", err, string(diag.SkippedVerify))
	if _, err := w.open(workspace.Options{}).Pull(ctx, "not/a/registry", workspace.PullOptions{}); err == nil {
		t.Error("pulled from no registry")
	}
	if _, err := w.open(workspace.Options{}).Pull(ctx, reg.host+"/team/good:1.4.0", workspace.PullOptions{Only: []string{"core"}}); err == nil {
		t.Error("a part without a folder")
	}
}

// raw stores a manifest as it is.
func (w *world) raw(s *registry.Store, m any, ref string) ocispec.Descriptor {
	w.Helper()
	ctx := context.Background()
	if _, err := s.AddBytes(ctx, ocispec.MediaTypeEmptyJSON, []byte("{}")); err != nil {
		w.Fatal(err)
	}
	media := ocispec.MediaTypeImageManifest
	if _, ok := m.(ocispec.Index); ok {
		media = ocispec.MediaTypeImageIndex
	}
	desc, err := s.AddBytes(ctx, media, jsonOf(w.T, m))
	if err != nil {
		w.Fatal(err)
	}
	w.tag(s, desc, ref)
	return desc
}

// evilIndex packs an index with an invalid target name.
func (w *world) evilIndex(s *registry.Store, c content, target, ref string) {
	w.Helper()
	one := w.pack(s, c, "")
	one.Annotations = map[string]string{abi.AnnotationTarget: target}
	w.raw(s, ocispec.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex, Manifests: []ocispec.Descriptor{one},
		Annotations: map[string]string{abi.AnnotationName: c.name, abi.AnnotationVersion: c.version}}, ref)
}

// A pulled artifact can be used under its new name, whatever that is.
func TestPull(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t)
	reg := w.serve()
	w.sign(reg.store, w.index(reg.store, "wide", "1.0.0", "team/wide:1.0.0", "laptop", "phone"), 0)
	w.sign(reg.store, w.pack(reg.store, build("good", "1.0.0", ""), "team/mirror:1.0.0"), 0)
	ref := reg.host + "/team/wide:1.0.0"
	use := func(ws *workspace.Workspace, arg string) {
		t.Helper()
		if _, err := ws.Use(ctx, arg, workspace.Claim{}); err != nil {
			t.Errorf("%s cannot be used: %v", arg, err)
		}
	}
	ws := w.open(workspace.Options{})
	got, err := ws.Pull(ctx, ref, workspace.PullOptions{Out: "files"})
	if err != nil || got.Name != ref || len(got.Report.SignedBy) != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	use(ws, ref)
	for _, file := range []string{"files/laptop/core/core.gguf", "files/phone/assembly.json"} {
		if _, err := os.Stat(file); err != nil {
			t.Error(err)
		}
	}
	got, err = ws.Pull(ctx, ref, workspace.PullOptions{As: "mine:7"})
	if err != nil || got.Name != "mine:7" || got.Report.Moved != 0 {
		t.Fatalf("%+v, %v", got, err)
	}
	use(ws, "mine:7")
	_, err = ws.Pull(ctx, ref, workspace.PullOptions{As: "wide:1.0.0"})
	w.wants("a name without the registry", err, "")
	use(ws, "wide:1.0.0")

	mirror := reg.host + "/team/mirror:1.0.0"
	if _, err := ws.Pull(ctx, mirror, workspace.PullOptions{Claim: workspace.Claim{Expect: "good"}}); err != nil {
		t.Fatal(err)
	}
	use(ws, mirror)
	if _, err := ws.Remove(ctx, mirror); err != nil {
		t.Fatal(err)
	}
	_, err = ws.Pull(ctx, mirror, workspace.PullOptions{})
	w.wants("the user's word goes with the name", err, string(diag.IdentityDiffers))
	w.trust(filepath.Join(w.home, "trust.yaml"), "mirrors: {"+`"`+reg.host+"/team/mirror"+`": good`+"}\n", "**", 0)
	ws = w.open(workspace.Options{})
	if _, err := ws.Pull(ctx, mirror, workspace.PullOptions{}); err != nil {
		t.Fatal(err)
	}
	use(ws, mirror)

	// Parts get no name; a layout in place of the store keeps no aliases.
	got, err = ws.Pull(ctx, ref, workspace.PullOptions{Only: []string{"format=gguf"}, Out: "part"})
	if err != nil || got.Name != "" {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := os.Stat("part/laptop/assembly.json"); !os.IsNotExist(err) {
		t.Errorf("too much: %v", err)
	}
	if _, err := ws.Pull(ctx, ref, workspace.PullOptions{Target: "phone", Out: "phone"}); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat("phone/assembly.json"); err != nil {
		t.Error(err)
	}
	usb := w.open(workspace.Options{Layout: "usb"})
	_, err = usb.Pull(ctx, ref, workspace.PullOptions{As: "mine:7"})
	w.wants("an alias in a layout", err, string(diag.IdentityDiffers))
	if got, err := usb.Pull(ctx, ref, workspace.PullOptions{As: "wide:1.0.0"}); err != nil || got.Name != "wide:1.0.0" {
		t.Errorf("%+v, %v", got, err)
	}
	// Out of a layout, by folder and by name, into another home.
	away := newWorld(t)
	for _, arg := range []string{"oci:" + filepath.Join(w.dir, "usb"), filepath.Join(w.dir, "usb"), "oci:" + filepath.Join(w.dir, "usb") + ":wide:1.0.0"} {
		got, err := away.open(workspace.Options{}).Pull(ctx, arg, workspace.PullOptions{})
		if err != nil || got.Name != "wide:1.0.0" {
			t.Errorf("%s: %+v, %v", arg, got, err)
		}
	}
}

// A link where a target's folder would be is not followed, and neither is a tag
// that moves; a blob that the store had already is hashed.
func TestPullHolds(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t)
	reg := w.serve()
	old := w.index(reg.store, "wide", "1.0.0", "team/wide:1.0.0", "laptop")
	w.sign(reg.store, old, 0)
	ref := reg.host + "/team/wide:1.0.0"
	if err := os.MkdirAll("elsewhere", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll("out", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../elsewhere", "out/laptop"); err == nil {
		if _, err := w.open(workspace.Options{}).Pull(ctx, ref, workspace.PullOptions{Out: "out"}); err == nil {
			t.Error("a link was followed")
		}
		if entries, _ := os.ReadDir("elsewhere"); len(entries) > 0 {
			t.Errorf("files behind the link: %v", entries)
		}
	}
	other := build("wide", "1.0.0", "")
	other.files["core/core.gguf"] = "other"
	moved := w.pack(reg.store, other, "")
	fresh := newWorld(t)
	ws := fresh.open(workspace.Options{})
	ws.OnAdmitted(func() { w.tag(reg.store, moved, "team/wide:1.0.0") })
	_, err := ws.Pull(ctx, ref, workspace.PullOptions{Out: "files"})
	w.wants("moved", err, string(diag.TagMoved))
	if list, _ := ws.List(ctx); len(list) > 0 {
		t.Errorf("it got a name: %v", list)
	}
	if _, err := os.Stat("files"); !os.IsNotExist(err) {
		t.Error("its files were put out")
	}
	w.tag(reg.store, old, "team/wide:1.0.0")
	fresh.flip(fresh.store(), "wide1.0.0laptop")
	_, err = fresh.open(workspace.Options{}).Pull(ctx, ref, workspace.PullOptions{})
	w.wants("a flipped blob that was there", err, string(sign.Tampered))
	if !strings.Contains(hint(err), "fsck --repair") {
		t.Errorf("hint %q", hint(err))
	}
}

// Push refuses names that every pull would refuse, and warns of missing
// signatures.
func TestPush(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t)
	reg := w.serve()
	s := w.store()
	w.sign(s, w.index(s, "wide", "1.0.0+b1", "wide:1.0.0_b1", "laptop", "phone"), 0)
	w.pack(s, build("bare", "1.0.0", "laptop"), "bare:1.0.0")
	w.pack(s, build("bent", "1.0.0", ""), "bent:1.0.0")
	w.flip(s, "bent1.0.0")
	team := reg.host + "/team/"
	for _, c := range []struct{ ref, dest, expect, want, code string }{
		{ref: "wide:1.0.0_b1", dest: team + "wide", want: team + "wide:1.0.0_b1"},
		{ref: "wide", dest: team + "wide:latest", want: team + "wide:latest"},
		{ref: "wide:1.0.0_b1", dest: team + "wide:2.0.0", code: string(diag.IdentityDiffers)},
		{ref: "wide:1.0.0_b1", dest: team + "other", code: string(diag.IdentityDiffers)},
		{ref: "wide:1.0.0_b1", dest: team + "other", expect: "wide", want: team + "other:1.0.0_b1"},
		{ref: "wide:1.0.0_b1", dest: team + "other:2.0.0", expect: "wide", code: string(diag.IdentityDiffers)},
		{ref: "wide:1.0.0_b1", dest: "oci:usb", want: "oci:usb:wide:1.0.0_b1"},
		{ref: "wide:1.0.0_b1", dest: "oci:usb:other:1.0.0_b1", code: string(diag.IdentityDiffers)},
		{ref: "wide:1.0.0_b1", dest: "oci:usb:2.0.0", code: string(diag.IdentityDiffers)},
		{ref: "wide:1.0.0_b1", dest: "oci:usb:mine", want: "oci:usb:mine"},
		{ref: "bent:1.0.0", dest: team + "bent", code: string(sign.Tampered)},
		{ref: "nobody:1.0.0", dest: team + "nobody", code: string(diag.NoArtifact)},
		{ref: "bare:1.0.0", dest: team + "bare", want: team + "bare:1.0.0"},
	} {
		w.printed = nil
		got, err := w.open(workspace.Options{}).Push(ctx, c.ref, c.dest, workspace.PushOptions{Expect: c.expect})
		w.wants(c.ref+" to "+c.dest, err, c.code)
		if got != nil && got.Ref != c.want {
			t.Errorf("%s to %s: %s", c.ref, c.dest, got.Ref)
		}
		if err == nil && w.heard("is not signed") != strings.HasPrefix(c.ref, "bare") {
			t.Errorf("%s: wrong warning about its signature", c.ref)
		}
	}
	for _, bad := range []string{"x:y:z", "team/wide", "oci:"} {
		if _, err := w.open(workspace.Options{}).Push(ctx, "wide", bad, workspace.PushOptions{}); err == nil {
			t.Errorf("pushed to %q", bad)
		}
	}
	tags, err := reg.store.Tags(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tag := range tags {
		names = append(names, tag.Ref)
	}
	all := strings.Join(names, " ")
	for _, want := range []string{"team/wide:1.0.0_b1-laptop", "team/wide:latest-phone", "team/bare:1.0.0-laptop", "team/other:1.0.0_b1"} {
		if !strings.Contains(all+" ", want+" ") {
			t.Errorf("no %s among %s", want, all)
		}
	}
	// Names that push accepted, pull accepts.
	for _, ref := range []string{"wide:1.0.0_b1", "wide:1.0.0_b1-laptop", "wide:latest"} {
		if _, err := newWorld(t).open(workspace.Options{}).Pull(ctx, team+ref, workspace.PullOptions{}); err != nil {
			t.Errorf("%s: %v", ref, err)
		}
	}
	if _, err := w.open(workspace.Options{}).Push(ctx, team+"wide:latest", team+"wide", workspace.PushOptions{}); code(err) != string(diag.NoArtifact) {
		t.Errorf("pushed a remote artifact: %v", err)
	}
}

// Names in the store: another name or version is the user's word or refused.
func TestTag(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t)
	s := w.store()
	w.sign(s, w.pack(s, build("good", "1.0.0", ""), "good:1.0.0"), 0)
	ws := w.open(workspace.Options{})
	for _, c := range []struct {
		name  string
		alias bool
		want  string
	}{
		{"good:stable", false, ""},
		{"mine:1", false, string(diag.IdentityDiffers)},
		{"good:2.0.0", false, string(diag.IdentityDiffers)},
		{"mine:1", true, ""},
		{"good:2.0.0", true, ""},
		{"team/good:1.0.0", false, ""},
	} {
		err := ws.Tag(ctx, "good:1.0.0", c.name, workspace.TagOptions{Alias: c.alias})
		w.wants(c.name, err, c.want)
		if c.want != "" {
			if !strings.Contains(hint(err), "--alias") {
				t.Errorf("hint %q", hint(err))
			}
			continue
		}
		if _, err := ws.Use(ctx, c.name, workspace.Claim{}); err != nil {
			t.Errorf("%s cannot be used: %v", c.name, err)
		}
	}
	w.wants("a ref that is not there", ws.Tag(ctx, "none:1", "x:1", workspace.TagOptions{Alias: true}), string(diag.NoArtifact))
	if err := ws.Tag(ctx, "mine:1", "yours:2", workspace.TagOptions{Alias: true}); err != nil {
		t.Error(err)
	}
	if _, err := ws.Use(ctx, "yours:2", workspace.Claim{}); err != nil {
		t.Errorf("an alias of an alias: %v", err)
	}
	// The alias is bound to its artifact: other bytes under it are judged
	// again.
	w.tag(s, w.pack(s, build("bad", "1.0.0", ""), ""), "mine:1")
	_, err := w.admit(workspace.Options{}, "mine:1", workspace.Claim{})
	w.wants("another artifact under the alias", err, string(diag.IdentityDiffers))
	_, err = ws.Remove(ctx, "mine:1", "good:stable")
	w.wants("rm", err, "")
	_, err = ws.Remove(ctx, "mine:1")
	w.wants("rm twice", err, string(diag.NoArtifact))
	w.tag(s, w.pack(s, build("good", "1.0.0", ""), ""), "mine:1")
	_, err = w.admit(workspace.Options{}, "mine:1", workspace.Claim{})
	w.wants("the alias went with the name", err, string(diag.IdentityDiffers))
	// A user of a name from before aliases gets a hint how to keep it.
	if h := hint(err); !strings.Contains(h, "mm tag mine:1 mine:1 --alias") {
		t.Errorf("hint %q", h)
	}
	w.sign(s, w.pack(s, build("good", "1.0.0", ""), ""), 0)
	if err := ws.Tag(ctx, "mine:1", "mine:1", workspace.TagOptions{Alias: true}); err != nil {
		t.Error(err)
	}
	if _, err := ws.Use(ctx, "mine:1", workspace.Claim{}); err != nil {
		t.Errorf("stored under its own name: %v", err)
	}

	usb, err := registry.Open("usb", registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer usb.Close()
	w.pack(usb, build("good", "1.0.0", ""), "good:1.0.0")
	w.wants("in a layout", w.open(workspace.Options{Layout: "usb"}).Tag(ctx, "good:1.0.0", "mine:1", workspace.TagOptions{Alias: true}), string(diag.IdentityDiffers))
}

// Signing makes an artifact usable, in the store and in a layout.
func TestSign(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t)
	w.pack(w.store(), build("good", "1.0.0", ""), "good:1.0.0")
	usb, err := registry.Open("usb", registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w.pack(usb, build("good", "1.1.0", ""), "good:1.1.0")
	usb.Close()
	ws := w.open(workspace.Options{})
	signer, err := ws.Signer("default", noPassword)
	if err != nil {
		t.Fatal(err)
	}
	for _, arg := range []string{"good:1.0.0", "usb"} {
		_, err := w.admit(workspace.Options{}, arg, workspace.Claim{})
		w.wants(arg, err, string(sign.Unsigned))
		if !strings.Contains(hint(err), "mm sign") {
			t.Errorf("hint %q", hint(err))
		}
		at, err := ws.Find(ctx, arg)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ws.Sign(ctx, at, signer); err != nil {
			t.Error(err)
		}
		_, err = w.admit(workspace.Options{}, arg, workspace.Claim{})
		w.wants(arg, err, "")
	}
	if _, err := ws.Signer("none.key", noPassword); err == nil || !strings.Contains(hint(err), "mm keys generate") {
		t.Errorf("%v", err)
	}
	t.Setenv("SOURCE_DATE_EPOCH", "x")
	if _, err := ws.Signer("", noPassword); err == nil {
		t.Error("a date that is none")
	}
}

func TestGenerateKey(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t)
	ws := w.open(workspace.Options{Home: t.TempDir()})
	ask := func() ([]byte, error) { return []byte("secret"), nil }
	made, err := ws.GenerateKey(ctx, workspace.KeyOptions{Algorithm: sign.Ed25519, Name: "mm"}, ask)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(made.Private)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	trust, err := trust.Load(ws.TrustFile())
	if err != nil || len(trust.Keys) != 1 || trust.Rules[0].Match != "**" {
		t.Errorf("%+v, %v", trust, err)
	}
	if _, err := ws.GenerateKey(ctx, workspace.KeyOptions{Algorithm: sign.Ed25519, Name: "mm"}, func() ([]byte, error) {
		t.Error("a password was asked for nothing")
		return nil, nil
	}); err == nil || hint(err) == "" {
		t.Errorf("a key was replaced: %v", err)
	}
	if _, err := ws.GenerateKey(ctx, workspace.KeyOptions{Algorithm: "rsa", Name: "b"}, ask); err == nil {
		t.Error("an algorithm that is none")
	}
}

func jsonOf(t *testing.T, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// An operation that must be in the audit log fails before it acts if the log cannot be
// written; others warn.
func TestUnrecorded(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t)
	reg, s := w.serve(), w.store()
	w.sign(s, w.pack(s, build("good", "1.0.0", ""), "good:1.0.0"), 0)
	plain := w.pack(s, build("plain", "1.0.0", ""), "plain:1.0.0")
	w.modelIn("core")
	w.write("g.graph.yaml", coreGraph)
	opt := workspace.Options{PlainHTTP: []string{reg.host}}
	if _, err := w.open(opt).Push(ctx, "good:1.0.0", reg.host+"/good", workspace.PushOptions{}); err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(w.home, "audit.jsonl")
	if err := errors.Join(os.Remove(log), os.Mkdir(log, 0o755)); err != nil {
		t.Fatal(err)
	}
	ws := w.open(opt)
	signer, err := ws.Signer("", noPassword)
	if err != nil {
		t.Fatal(err)
	}
	find := func(ref string) *workspace.Located {
		at, err := ws.Find(ctx, ref)
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	for what, try := range map[string]func() error{
		"push": func() error {
			_, err := ws.Push(ctx, "good:1.0.0", reg.host+"/more/good", workspace.PushOptions{})
			return err
		},
		"sign": func() error { _, err := ws.Sign(ctx, find("plain:1.0.0"), signer); return err },
		"skip": func() error { _, err := ws.Admit(ctx, find("plain:1.0.0"), workspace.Claim{Skip: true}); return err },
		"add":  func() error { _, err := ws.AddModule(ctx, "core", signer, false); return err },
		"assemble": func() error {
			_, err := ws.Assemble(ctx, assemble.Options{Graph: "g.graph.yaml", Exporters: exporters, Signer: signer}, workspace.ResolveOptions{})
			return err
		},
		"own model": func() error { _, err := ws.Runnable(ctx, "core", workspace.RunOptions{}); return err },
		"function": func() error {
			_, err := ws.Function(ctx, filepath.Join(reference, "..", "vision-enc"), workspace.RunOptions{})
			return err
		},
	} {
		if err := try(); err == nil || !strings.Contains(err.Error(), "audit log") || hint(err) == "" {
			t.Errorf("%s: %v", what, err)
		}
	}
	if list, err := s.Referrers(ctx, plain, ""); err != nil || len(list) > 0 {
		t.Errorf("signed nevertheless: %v, %v", list, err)
	}
	if _, err := reg.store.Resolve(ctx, "more/good:1.0.0"); err == nil {
		t.Error("pushed nevertheless")
	}
	if tags, err := s.Tags(ctx); err != nil || len(tags) != 2 {
		t.Errorf("names %v, %v", tags, err)
	}
	w.printed = nil
	_, err = ws.Admit(ctx, find("good:1.0.0"), workspace.Claim{})
	w.wants("verify", err, "")
	if !w.heard("audit log") {
		t.Error("no warning")
	}
	_, err = ws.Pull(ctx, reg.host+"/good:1.0.0", workspace.PullOptions{})
	w.wants("pull", err, "")
}
