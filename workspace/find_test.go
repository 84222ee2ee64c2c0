package workspace_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/registry/sign"
	"mm-abi.org/mm/workspace"
)

// The forms of an argument, and their meanings.
func TestFind(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t)
	s := w.store()
	put := func(s *registry.Store, c content, refs ...string) string {
		t.Helper()
		desc := w.pack(s, c, "")
		for _, r := range refs {
			w.tag(s, desc, r)
		}
		return desc.Digest.String()
	}
	a1 := put(s, build("a", "1.0.0", "laptop"), "a:1.0.0", "a:1.0.0-laptop")
	a2 := put(s, build("a", "1.10.0", "laptop"), "a:1.10.0", "a:1.10.0-laptop")
	put(s, build("a", "1.9.0", "laptop"), "a:1.9.0", "a:1.9.0-laptop")
	put(s, build("a", "2.0.0-rc.1", "laptop"), "a:2.0.0-rc.1")
	put(s, module("m", "1.0.0+abc"), "m:1.0.0_abc")

	open := func(dir string) *registry.Store {
		t.Helper()
		s, err := registry.Open(dir, registry.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	two := open("two")
	t1 := put(two, build("a", "0.1.0", "laptop"), "a:0.1.0", "a:0.1.0-laptop")
	t2 := put(two, build("a", "0.2.0", "laptop"), "a:0.2.0", "a:0.2.0-laptop", "a:latest")
	old := open("old") // as an older mm wrote it
	o1 := put(old, build("a", "0.1.0", "laptop"), "0.1.0", "0.1.0-laptop")
	rc := open("rc")
	r1 := put(rc, build("a", "1.0.0-rc.1", "laptop"), "a:1.0.0-rc.1", "a:1.0.0-rc.1-laptop")
	names := open("names")
	put(names, build("a", "0.1.0", ""), "a:0.1.0")
	n1 := put(names, build("b", "0.1.0", ""), "b:0.1.0")
	open("empty")
	w.write("plain/x", "")

	for _, c := range []struct{ layout, arg, digest, code string }{
		{"", "a:1.0.0", a1, ""},
		{"", "a:1.0.0-laptop", a1, ""},
		{"", "a", a2, ""},
		{"", "a@^1.0", a2, ""},
		{"", "a@1.0.0", a1, ""},
		{"", "m@1.0.0+abc", "-", ""},
		{"", "a@^3", "", string(diag.NoArtifact)},
		{"", "1.0.0", "", string(diag.NoArtifact)}, // a bare version has no meaning in the store
		{"", a1, a1, ""},
		{"", "two", t2, ""},
		{"", "two@0.1.0", t1, ""},
		{"", "two@^0.1", t1, ""},
		{"", "two@7.0.0", "", string(diag.NoArtifact)},
		{"", "old", o1, ""},
		{"", "rc", r1, ""},
		{"", "oci:two:a:0.1.0", t1, ""},
		{"", "oci:two:0.1.0", t1, ""},
		{"", "oci:two", t2, ""},
		{"", "oci:two:a:latest", t2, ""},
		{"", "oci:two@" + t1, t1, ""},
		{"", "oci:two:b:0.1.0", "", string(diag.NoArtifact)},
		{"", "oci:old:0.1.0", o1, ""},
		{"", "empty", "", string(diag.NoArtifact)},
		{"", "plain", "", string(diag.NoArtifact)},
		{"two", "a:0.1.0", t1, ""},
		{"two", "0.1.0", t1, ""},
		{"two", "0.2.0", t2, ""},
		{"two", "a", t2, ""},
		{"old", "0.1.0", o1, ""},
		{"names", "b:0.1.0", n1, ""},
		{"two", "a:7.0.0", "", string(diag.NoArtifact)},
	} {
		ws := w.open(workspace.Options{Layout: c.layout})
		at, err := ws.Find(ctx, c.arg)
		w.wants(c.layout+" "+c.arg, err, c.code)
		if at == nil {
			continue
		}
		if got := at.Descriptor().Digest.String(); c.digest != "-" && got != c.digest {
			t.Errorf("%s %s: %s, want %s", c.layout, c.arg, got, c.digest)
		}
		if _, err := ws.Admit(ctx, at, workspace.Claim{Skip: true}); err != nil {
			t.Errorf("%s %s: %v", c.layout, c.arg, err)
		}
	}
	for _, arg := range []string{"names", "oci:names"} {
		_, err := w.open(workspace.Options{}).Find(ctx, arg)
		if err == nil || !strings.Contains(hint(err), "--layout") {
			t.Errorf("%s: %v", arg, err)
		}
	}
	if _, err := w.open(workspace.Options{Layout: "names"}).Find(ctx, "0.1.0"); err == nil {
		t.Error("a bare version of two names")
	}
}

// A target's folder outside of its layout is refused, with a hint.
func TestLooseFolder(t *testing.T) {
	w := newWorld(t)
	c := build("good", "1.0.0", "laptop")
	for path, text := range c.files {
		w.write("copied/"+path, text)
	}
	_, err := w.open(workspace.Options{}).Find(context.Background(), "copied")
	w.wants("copied", err, string(diag.NoArtifact))
	if !strings.Contains(hint(err), "mm pull") || !strings.Contains(err.Error(), "good 1.0.0, target laptop") {
		t.Errorf("%v; hint %q", err, hint(err))
	}
	w.pack(w.store(), c, "good:1.0.0-laptop")
	_, err = w.open(workspace.Options{}).Find(context.Background(), "copied")
	if !strings.Contains(hint(err), "use good:1.0.0-laptop") {
		t.Errorf("hint %q", hint(err))
	}
	w.write("copied/assembly.json", "{")
	_, err = w.open(workspace.Options{}).Find(context.Background(), "copied")
	w.wants("broken", err, string(diag.NoArtifact))
}

// At a registry the manifest and the signatures decide, and no layer is
// fetched.
func TestRemote(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t)
	reg := w.serve()
	w.sign(reg.store, w.index(reg.store, "wide", "1.0.0", "team/wide:1.0.0", "laptop", "phone"), 0)
	w.pack(reg.store, build("wide", "2.0.0", ""), "team/wide:2.0.0")
	w.sign(reg.store, w.pack(reg.store, build("wide", "3.0.0", ""), "team/wide:3.1.0"), 0)
	ws := w.open(workspace.Options{})
	verify := func(arg string) (*workspace.Judgement, int, int64, error) {
		t.Helper()
		at, err := ws.Find(ctx, arg)
		if err != nil {
			return nil, 0, 0, err
		}
		if !at.Remote() || at.Store() != nil {
			t.Errorf("%s is not remote", arg)
		}
		return ws.Verify(ctx, at, workspace.Claim{})
	}
	j, files, bytes, err := verify(reg.host + "/team/wide:1.0.0")
	if err != nil || len(j.Keys) != 1 || files != 6 || bytes < 10_000 {
		t.Errorf("%+v, %d files of %d bytes, %v", j, files, bytes, err)
	}
	_, _, _, err = verify(reg.host + "/team/wide:2.0.0")
	w.wants("unsigned", err, string(sign.Unsigned))
	_, _, _, err = verify(reg.host + "/team/wide:3.1.0")
	w.wants("another version", err, string(diag.IdentityDiffers))
	_, _, _, err = verify(reg.host + "/team/wide:9.0.0")
	w.wants("not there", err, string(diag.NoArtifact))
	at, err := ws.FindRemote(ctx, reg.host+"/team/wide:1.0.0")
	if err != nil {
		t.Fatal(err)
	}
	v, err := ws.Inspect(ctx, at)
	if err != nil || !v.Remote || len(v.Targets) != 2 || len(v.Signatures) != 1 || len(v.Targets[0].Signatures) != 1 || len(v.Targets[1].Layers) != 3 {
		t.Errorf("%+v, %v", v, err)
	}
	if _, err := ws.Admit(ctx, at, workspace.Claim{}); err == nil {
		t.Error("admitted without its bytes")
	}
	if _, err := w.open(workspace.Options{Offline: true}).FindRemote(ctx, reg.host+"/team/wide:1.0.0"); code(err) != string(diag.Offline) {
		t.Error(err)
	}
	_, err = w.open(workspace.Options{Offline: true}).Find(ctx, reg.host+"/team/wide:1.0.0")
	w.wants("offline", err, string(diag.NoArtifact))
	for _, bad := range []string{"oci:x", "a b", "team/x:1"} {
		if _, err := ws.FindRemote(ctx, bad); err == nil {
			t.Errorf("%q is a registry's", bad)
		}
	}
	configs := 3 // one config a manifest is fetched; layers are not
	if n := reg.asked(); n > configs*8 {
		t.Errorf("%d blobs were fetched", n)
	}
	entries, err := os.ReadDir(ws.StoreDir() + "/blobs/sha256")
	if err == nil && len(entries) > 0 {
		t.Errorf("%d blobs came into the store", len(entries))
	}
	// Used, it is pulled and admitted, by name and by digest.
	u, err := ws.Use(ctx, reg.host+"/team/wide:1.0.0", workspace.Claim{})
	if err != nil || u.Store() == nil {
		t.Fatal(err)
	}
	if u, err = ws.Use(ctx, reg.host+"/team/wide@"+u.Digest, workspace.Claim{}); err != nil || u.Descriptor().Digest.String() != u.Digest {
		t.Error(err)
	}
	fresh := newWorld(t)
	if _, err := fresh.open(workspace.Options{}).Use(ctx, reg.host+"/team/wide@"+u.Digest, workspace.Claim{}); err != nil {
		t.Error(err)
	}
}

// A range and a bare name mean the newest such version at a registry, tags of single targets
// never; a version that disappeared is warned of, and other bytes never replace a version.
func TestFindPublished(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t)
	reg := w.serve()
	for _, version := range []string{"1.0.0", "1.2.0", "1.10.0", "2.0.0-rc.1"} {
		w.sign(reg.store, w.index(reg.store, "p", version, "team/p:"+version, "laptop"), 0)
	}
	w.sign(reg.store, w.pack(reg.store, build("p", "1.11.0", "laptop"), "team/p:1.11.0-laptop"), 0)
	w.sign(reg.store, w.pack(reg.store, build("only", "0.1.0", ""), "team/only:latest"), 0)
	w.tag(reg.store, w.pack(reg.store, build("none", "0.1.0", ""), "team/none:edge"), "team/none:old")
	ws := w.open(workspace.Options{})
	for _, c := range []struct{ arg, want string }{
		{"p", "1.10.0"},
		{"p@^1", "1.10.0"},
		{"p@~1.2", "1.2.0"},
		{"p@<1.2", "1.0.0"},
		{"p@>=1.11.0-0 <2.0.0-0", string(diag.NoArtifact)}, // only a target's tag
		{"p@>=1.0.0-0", "1.10.0"},                          // a release before others, as in the store
		{"p@>=2.0.0-0", "2.0.0-rc.1"},
		{"p@^3", string(diag.NoArtifact)},
		{"only", "latest"},
		{"only@^0.1", string(diag.NoArtifact)},
		{"none", string(diag.NoArtifact)},
		{"absent", string(diag.NoArtifact)},
	} {
		at, err := ws.Find(ctx, reg.host+"/team/"+c.arg)
		got := code(err)
		if err == nil {
			_, got, _ = strings.Cut(at.Ref(), "/team/")
			_, got, _ = strings.Cut(got, ":")
		}
		if got != c.want {
			t.Errorf("%s: got %s, want %s: %v", c.arg, got, c.want, err)
		}
		if _, err := ws.FindRemote(ctx, reg.host+"/team/"+c.arg); err == nil {
			t.Errorf("%s is one tag", c.arg)
		}
	}
	// A range is renewed, pulled by its version, and remembered.
	ref := reg.host + "/team/p@^1"
	seen := []string{}
	for _, version := range []string{"1.10.0", "1.12.0", "1.12.0"} {
		if version != "1.10.0" && len(seen) == 1 {
			w.sign(reg.store, w.index(reg.store, "p", version, "team/p:"+version, "laptop"), 0)
		}
		b, digest, err := ws.Renewed(ctx, ref, workspace.RunOptions{Target: "laptop"}, seen...)
		if err != nil {
			t.Fatal(err)
		}
		if before := slices.Contains(seen, digest); before != (b == nil) || before != (len(seen) == 2) {
			t.Errorf("%s: build %v, digest %s of %v", version, b, digest, seen)
		}
		if b != nil && b.Assembly.Version != version {
			t.Errorf("got %s, want %s", b.Assembly.Version, version)
		}
		if b != nil {
			seen = append(seen, digest)
		}
	}
	if err := reg.store.Untag(ctx, "team/p:1.12.0"); err != nil {
		t.Fatal(err)
	}
	if _, err := ws.Pull(ctx, ref, workspace.PullOptions{}); err != nil || !strings.Contains(strings.Join(w.printed, "\n"), "version 1.10.0, but version 1.12.0") {
		t.Errorf("rolled back: %v, %q", err, w.printed)
	}
}

// More tags than maxCandidates are not tried.
func TestCandidates(t *testing.T) {
	for _, n := range []int{workspace.MaxCandidates - 1, workspace.MaxCandidates, workspace.MaxCandidates + 1} {
		var tags []string
		for i := range n {
			tags = append(tags, fmt.Sprintf("1.%d.0", i))
		}
		got := workspace.Candidates(abi.Ref{Constraint: "^1"}, tags)
		if len(got) != min(n, workspace.MaxCandidates) || got[0] != fmt.Sprintf("1.%d.0", n-1) {
			t.Errorf("%d tags: %d candidates from %s", n, len(got), got[0])
		}
	}
}

// List and Inspect show all names, aliases and foreign entries included.
func TestList(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t)
	s := w.store()
	w.index(s, "wide", "1.0.0", "wide:1.0.0", "laptop")
	w.pack(s, module("m", "1.0.0"), "m:1.0.0")
	ws := w.open(workspace.Options{})
	if err := ws.Tag(ctx, "m:1.0.0", "mine:1", workspace.TagOptions{Alias: true}); err != nil {
		t.Fatal(err)
	}
	list, err := ws.List(ctx)
	if err != nil || len(list) != 3 {
		t.Fatalf("%+v, %v", list, err)
	}
	if l := list[1]; l.Ref != "mine:1" || l.Alias != "local/m:1.0.0" || l.Type != string(abi.Core) || l.Size == 0 {
		t.Errorf("%+v", l)
	}
	if l := list[2]; l.Kind != "index" || l.Size == 0 || l.Version != "1.0.0" {
		t.Errorf("%+v", l)
	}
	at, err := ws.Find(ctx, "m:1.0.0")
	if err != nil {
		t.Fatal(err)
	}
	if v, err := ws.Inspect(ctx, at); err != nil || v.Name != "m" || v.Remote || len(v.Layers) != 2 {
		t.Errorf("%+v, %v", v, err)
	}
	if at.Ref() != "m:1.0.0" {
		t.Errorf("%s", at.Ref())
	}
	found := ws.Examine(ctx, workspace.ExamineOptions{Version: "1.0.0"})
	if len(found) != 8 || found[0].What != "program" || found[4].What != "store" || found[4].State != "ok" {
		t.Errorf("%+v", found)
	}
}

// A folder without a build that may be taken: the message describes why.
func TestNoBuild(t *testing.T) {
	w := newWorld(t)
	s, err := registry.Open("one", registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w.tag(s, w.pack(s, build("a", "1.0.0", "laptop"), ""), "a:1.0.0")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	index, err := os.ReadFile("one/index.json")
	if err != nil {
		t.Fatal(err)
	}
	digest, _, _ := strings.Cut(strings.SplitAfter(string(index), `"sha256:`)[1], `"`)
	for name, c := range map[string]struct{ old, new, want string }{
		"nameless": {"org.opencontainers.image.ref.name", "x", "ref.name"},
		"absent":   {digest, strings.Repeat("0", 64), "not found"},
		"unmarked": {"none", "", "oci-layout"},
	} {
		w.write(name+"/index.json", strings.ReplaceAll(string(index), c.old, c.new))
		if name != "unmarked" {
			w.write(name+"/oci-layout", `{"imageLayoutVersion":"1.0.0"}`)
		}
		if _, err := w.open(workspace.Options{}).Find(context.Background(), "oci:"+name); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}
