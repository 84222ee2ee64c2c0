package workspace_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/registry/artifact"
	"mm-abi.org/mm/registry/sign"
	"mm-abi.org/mm/workspace"
)

// admit finds an argument and admits it.
func (w *world) admit(opt workspace.Options, arg string, claim workspace.Claim) (*workspace.Verified, error) {
	w.Helper()
	ws := w.open(opt)
	at, err := ws.Find(context.Background(), arg)
	if err != nil {
		return nil, err
	}
	return ws.Admit(context.Background(), at, claim)
}

// Each thing that may be wrong with an artifact, alone.
func TestAdmitRefuses(t *testing.T) {
	w := newWorld(t)
	s := w.store()
	put := func(c content, ref string, keys ...int) {
		t.Helper()
		desc := w.pack(s, c, ref)
		for _, k := range keys {
			w.sign(s, desc, k)
		}
	}
	with := func(c content, key, value string) content {
		c.notes[key] = value
		return c
	}
	put(build("good", "1.0.0", "laptop"), "good:1.0.0", 0)
	w.tag(s, w.pack(s, build("good", "1.0.0", "laptop"), ""), "good:1.0.0-laptop")
	w.tag(s, w.pack(s, build("good", "1.0.0", "laptop"), ""), "good:stable")
	w.tag(s, w.pack(s, build("good", "1.0.0", "laptop"), ""), "other:1.0.0")       // name alone
	w.tag(s, w.pack(s, build("good", "1.0.0", "laptop"), ""), "good:2.0.0")        // version alone
	w.tag(s, w.pack(s, build("good", "1.0.0", "laptop"), ""), "good:1.0.0-phone")  // target alone
	w.tag(s, w.pack(s, build("good", "1.0.0", "laptop"), ""), "other:stable")      // name of a channel
	w.tag(s, w.pack(s, build("good", "1.0.0", "laptop"), ""), "team/other:stable") // below a path
	put(build("unsigned", "1.0.0", ""), "unsigned:1.0.0")
	put(build("strange", "1.0.0", ""), "strange:1.0.0", 1)
	put(build("bent", "1.0.0", ""), "bent:1.0.0", 0)
	w.flip(s, "bent1.0.0")
	put(with(build("future", "1.0.0", ""), abi.AnnotationABI, "mm-abi-9.0"), "future:1.0.0", 0)
	nameless := build("evil", "1.0.0", "")
	nameless.notes = map[string]string{"org.example.note": "x"}
	put(nameless, "good:nameless", 0) // only the config has the name evil
	w.index(s, "wide", "1.0.0", "wide:1.0.0", "laptop", "phone")

	for _, c := range []struct{ ref, want string }{
		{"good:1.0.0", ""},
		{"good:1.0.0-laptop", ""},
		{"good:stable", ""},
		{"other:1.0.0", string(diag.IdentityDiffers)},
		{"good:2.0.0", string(diag.IdentityDiffers)},
		{"good:1.0.0-phone", string(diag.IdentityDiffers)},
		{"other:stable", string(diag.IdentityDiffers)},
		{"team/other:stable", string(diag.IdentityDiffers)},
		{"unsigned:1.0.0", string(sign.Unsigned)},
		{"strange:1.0.0", string(sign.UnknownKey)},
		{"bent:1.0.0", string(sign.Tampered)},
		{"future:1.0.0", string(diag.UnknownABI)},
		{"good:nameless", string(diag.IdentityDiffers)},
		{"wide:1.0.0", string(sign.Unsigned)},
		{"nobody:1.0.0", string(diag.NoArtifact)},
		{"sha256:" + strings.Repeat("0", 64), string(diag.NoArtifact)},
	} {
		_, err := w.admit(workspace.Options{}, c.ref, workspace.Claim{})
		w.wants(c.ref, err, c.want)
	}
	desc, err := s.Resolve(context.Background(), "good:1.0.0")
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.admit(workspace.Options{}, desc.Digest.String(), workspace.Claim{})
	w.wants("by digest", err, "")
	_, err = w.admit(workspace.Options{}, "other@"+desc.Digest.String(), workspace.Claim{})
	w.wants("by digest under another name", err, string(diag.IdentityDiffers))
	_, err = w.admit(workspace.Options{}, "other:1.0.0", workspace.Claim{Expect: "good"})
	w.wants("with the user's word for its name", err, "")
	_, err = w.admit(workspace.Options{}, "good:1.0.0", workspace.Claim{Expect: "other"})
	w.wants("with the user's word for another name", err, string(diag.IdentityDiffers))
}

// The decision names keys and files, and is in the log.
func TestAdmitTells(t *testing.T) {
	w := newWorld(t)
	s := w.store()
	w.sign(s, w.pack(s, build("good", "1.0.0", ""), "good:1.0.0"), 0)
	v, err := w.admit(workspace.Options{}, "good:1.0.0", workspace.Claim{})
	if err != nil {
		t.Fatal(err)
	}
	if len(v.Keys) != 1 || v.Keys[0].Name != "key0" || !strings.HasPrefix(v.Keys[0].String(), "key0 (") {
		t.Errorf("keys %v", v.Keys)
	}
	if want := []string{filepath.Join(w.home, "trust.yaml")}; !slices.Equal(v.Decided, want) {
		t.Errorf("decided by %v, want %v", v.Decided, want)
	}
	log, err := os.ReadFile(filepath.Join(w.home, "audit.jsonl"))
	if err != nil || !strings.Contains(string(log), `"action":"verify","ref":"good:1.0.0"`) || !strings.Contains(string(log), v.Keys[0].ID) {
		t.Errorf("log %s, %v", log, err)
	}
	if r, err := w.open(workspace.Options{}).CheckAudit(context.Background(), ""); err != nil || r.Entries == 0 {
		t.Errorf("%+v, %v", r, err)
	}
	w.write(filepath.Join(w.home, "audit.jsonl"), "")
	_, err = w.open(workspace.Options{}).CheckAudit(context.Background(), "")
	w.wants("emptied log", err, string(diag.Corrupt))
}

// Without verification bytes are hashed, names are compared, the user is
// warned, and a strict trust file forbids it.
func TestSkip(t *testing.T) {
	w := newWorld(t)
	s := w.store()
	w.pack(s, build("good", "1.0.0", ""), "good:1.0.0")
	w.pack(s, build("bent", "1.0.0", ""), "bent:1.0.0")
	w.flip(s, "bent1.0.0")
	skip := workspace.Claim{Skip: true}
	v, err := w.admit(workspace.Options{}, "good:1.0.0", skip)
	w.wants("skip", err, "")
	if !w.heard("UNVERIFIED") {
		t.Error("nobody was told")
	}
	if v != nil && (!v.Skipped || v.Keys != nil) {
		t.Errorf("%+v", v.Judgement)
	}
	log, _ := os.ReadFile(filepath.Join(w.home, "audit.jsonl"))
	if !strings.Contains(string(log), `"action":"skip-verify"`) {
		t.Errorf("log: %s", log)
	}
	_, err = w.admit(workspace.Options{}, "bent:1.0.0", skip)
	w.wants("flipped byte", err, string(sign.Tampered))
	w.tag(s, w.pack(s, build("good", "1.0.0", ""), ""), "other:1.0.0")
	_, err = w.admit(workspace.Options{}, "other:1.0.0", skip)
	w.wants("another's name", err, string(diag.IdentityDiffers))
	w.trust(filepath.Join(w.home, "trust.yaml"), "strict: true\n", "**", 0)
	_, err = w.admit(workspace.Options{}, "good:1.0.0", skip)
	w.wants("strict", err, string(diag.SkippedVerify))
}

// A name that moves between verification and use is refused; a digest cannot.
func TestTagMoves(t *testing.T) {
	w := newWorld(t)
	s := w.store()
	old := w.pack(s, build("good", "1.0.0", ""), "good:1.0.0")
	w.sign(s, old, 0)
	next := build("good", "1.0.0", "")
	next.files["core/core.gguf"] = "another"
	moved := w.pack(s, next, "")
	for arg, want := range map[string]string{"good:1.0.0": string(diag.TagMoved), "good": string(diag.TagMoved), old.Digest.String(): ""} {
		w.tag(s, old, "good:1.0.0")
		ws := w.open(workspace.Options{})
		ws.OnAdmitted(func() { w.tag(s, moved, "good:1.0.0") })
		at, err := ws.Find(context.Background(), arg)
		if err != nil {
			t.Fatal(err)
		}
		_, err = ws.Admit(context.Background(), at, workspace.Claim{})
		w.wants(arg, err, want)
	}
}

// A build for engines: the right target, its files by their own names, and the
// manifest of each part.
func TestBuild(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t)
	s := w.store()
	w.sign(s, w.index(s, "wide", "1.0.0", "wide:1.0.0", "laptop", "phone"), 0)
	w.sign(s, w.pack(s, module("core-x", "2.0.0"), "core-x:2.0.0"), 0)
	skill := module("tool", "1.0.0")
	skill.notes[abi.AnnotationType] = string(abi.Skill)
	skill.files = map[string]string{modules.FileName: fmt.Sprintf(skillManifest, "tool", "1.0.0")}
	w.sign(s, w.pack(s, skill, "tool:1.0.0"), 0)
	ws := w.open(workspace.Options{})
	use := func(arg string) *workspace.Verified {
		t.Helper()
		v, err := ws.Use(ctx, arg, workspace.Claim{})
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	b, err := use("wide:1.0.0").Build(ctx, "phone")
	if err != nil {
		t.Fatal(err)
	}
	if want := use("wide:1.0.0").Digest; b.Digest != want || !strings.HasPrefix(want, "sha256:") {
		t.Errorf("digest %q, want %q", b.Digest, want)
	}
	if b.Assembly.Target != "phone" || b.Manifests["core"] == nil {
		t.Errorf("target %q, manifests %v", b.Assembly.Target, b.Manifests)
	}
	if b, err := use("wide:1.0.0").Build(ctx, ""); err != nil || b.Assembly.Target != "laptop" {
		t.Errorf("without a target: %v, %v", b, err)
	}
	_, err = use("wide:1.0.0").Build(ctx, "watch")
	w.wants("a target that is not there", err, string(diag.NoTarget))
	f, err := b.Files.Open("core/core.gguf")
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	if _, err := b.Files.Open("core/none"); err == nil || !strings.Contains(err.Error(), "core/none") {
		t.Errorf("a missing file: %v", err)
	}
	if path, err := b.Files.Path("core/core.gguf"); err != nil || !filepath.IsAbs(path) {
		t.Errorf("%s, %v", path, err)
	}
	dir, err := b.Files.Dir(ctx, "core/core.gguf", "assembly.json")
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(dir, "core", "core.gguf"))
	if err != nil || !strings.HasPrefix(string(got), "wide1.0.0phone") {
		t.Errorf("%.20q, %v", got, err)
	}
	if again, err := b.Files.Dir(ctx, "core/core.gguf", "core/module.yaml"); err != nil || again != dir {
		t.Errorf("%s, %v", again, err)
	}
	if _, err := b.Files.Dir(ctx, "none"); err == nil {
		t.Error("a folder of a file that is not there")
	}
	if err := ws.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("%s is there still: %v", dir, err)
	}
	ws = w.open(workspace.Options{})
	lone, err := use("core-x:2.0.0").Build(ctx, "")
	if err != nil || lone.Assembly.Core.Name != "core-x" || lone.Manifests["core-x"] == nil || len(lone.Assembly.Core.Files) != 1 {
		t.Errorf("a single core: %+v, %v", lone, err)
	}
	if _, err := use("tool:1.0.0").Build(ctx, ""); err == nil || hint(err) == "" {
		t.Errorf("a single skill: %v", err)
	}
}

// An untrusted assembly cannot break the rules.
func TestBuildHostile(t *testing.T) {
	w := newWorld(t)
	s := w.store()
	bad := build("bad", "1.0.0", "")
	bad.files[builds.AssemblyFile] = `{"name":"bad","files":[{"path":"../x"}]}`
	huge := build("huge", "1.0.0", "")
	huge.files[builds.AssemblyFile] = strings.Repeat(" ", 5<<20)
	for want, c := range map[diag.Code]content{diag.ClaimDiffers: bad, diag.HostileInput: huge} {
		w.sign(s, w.pack(s, c, c.name+":1.0.0"), 0)
		_, err := w.admit(workspace.Options{}, c.name+":1.0.0", workspace.Claim{})
		w.wants(c.name, err, string(want))
	}
}

// A second process may use the store meanwhile; the folder of a target is
// compared with the release (the folder's own files, not the layout's).
func TestTargetFolder(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t)
	s, err := registry.Open("dist", registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, version := range []string{"1.0.0", "1.1.0"} {
		desc := w.pack(s, build("good", version, "laptop"), "good:"+version+"-laptop")
		w.tag(s, desc, "good:"+version)
		w.sign(s, desc, 0)
		a, err := artifact.Read(ctx, s, desc)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Checkout(ctx, a, "dist/laptop", registry.CheckoutOptions{Link: true, Force: true}); err != nil {
			t.Fatal(err)
		}
	}
	v, err := w.admit(workspace.Options{}, "dist/laptop", workspace.Claim{})
	w.wants("sound", err, "")
	if v != nil && v.Identity.Version != "1.1.0" {
		t.Errorf("it holds %s", v.Identity.Version)
	}
	file := "dist/laptop/core/core.gguf"
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	replace := func(data []byte) {
		t.Helper()
		if err := os.Remove(file); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		if data != nil {
			w.write(file, string(data))
		}
	}
	replace(good) // a copy of the same bytes
	_, err = w.admit(workspace.Options{}, "dist/laptop", workspace.Claim{})
	w.wants("copied", err, "")
	if w.heard("not a file of the release") {
		t.Error("a warning about the release's own files")
	}
	for _, more := range []string{"dist/laptop/more.gguf", "dist/laptop/core/.hidden", "dist/laptop/deep/er/SHA256SUMS"} {
		w.write(more, "x")
		_, err = w.admit(workspace.Options{}, "dist/laptop", workspace.Claim{})
		w.wants(more, err, "")
		if !w.heard(filepath.FromSlash(more) + " is not a file of the release") {
			t.Errorf("no warning about %s", more)
		}
	}
	other := slices.Clone(good)
	other[7] ^= 1
	for what, data := range map[string][]byte{"another byte": other, "shorter": good[:9], "gone": nil} {
		replace(data)
		_, err = w.admit(workspace.Options{}, "dist/laptop", workspace.Claim{})
		w.wants(what, err, string(diag.Tampered))
		_, err = w.admit(workspace.Options{}, "dist/laptop", workspace.Claim{Skip: true})
		w.wants(what+", skipped", err, string(diag.Tampered))
		_, err = w.admit(workspace.Options{}, "dist", workspace.Claim{})
		w.wants(what+", the layout", err, "")
	}
	if err := os.Symlink(filepath.Join(w.dir, "elsewhere"), file); err == nil {
		w.write("elsewhere", string(good))
		_, err = w.admit(workspace.Options{}, "dist/laptop", workspace.Claim{})
		w.wants("a link", err, string(diag.Tampered))
	}
	replace(good)
	if err := os.Remove("dist/laptop/assembly.json"); err != nil {
		t.Fatal(err)
	}
	_, err = w.admit(workspace.Options{}, "dist/laptop", workspace.Claim{})
	w.wants("without its assembly", err, string(diag.Tampered))
}

// A model of another tool runs if it is one GGUF file; otherwise the error names the way.
func TestForeignModel(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t)
	w.pack(w.store(), content{name: "theirs", files: map[string]string{"deep/model.Q4_K_M.GGUF": "GGUF", "LICENSE": "MIT"}}, "theirs:1")
	w.pack(w.store(), content{name: "two", files: map[string]string{"a.gguf": "GGUF", "b.gguf": "GGUF"}}, "two:1")
	w.pack(w.store(), content{name: "none", files: map[string]string{"a.bin": "x"}}, "none:1")
	for ref, want := range map[string]string{"theirs:1": "", "two:1": "2 GGUF files", "none:1": "0 GGUF files"} {
		v, err := w.admit(workspace.Options{}, ref, workspace.Claim{Skip: true})
		if err != nil {
			t.Fatal(ref, err)
		}
		b, err := v.Build(ctx, "")
		if want != "" {
			if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(hint(err), "--out") {
				t.Errorf("%s: %v, want %q", ref, err, want)
			}
			continue
		}
		if err != nil || b.Assembly.Core.Name != "theirs" || len(b.Assembly.Core.Files[string(abi.GGUF)]) != 1 {
			t.Errorf("%s: %+v, %v", ref, b, err)
		}
	}
}
