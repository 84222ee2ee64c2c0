package resolve

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/registry/remote/auth"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/registry/artifact"
	"mm-abi.org/mm/registry/modelpack"
	"mm-abi.org/mm/registry/remote"
	"mm-abi.org/mm/registry/server"
)

// trusting accepts everything, and records the repositories.
type trusting struct{ asked []string }

func (v *trusting) Verify(_ context.Context, _ content.ReadOnlyGraphStorage, repository string, _ ocispec.Descriptor) ([]string, error) {
	v.asked = append(v.asked, repository)
	return []string{"key"}, nil
}

// refusing accepts nothing.
type refusing struct{}

func (refusing) Verify(context.Context, content.ReadOnlyGraphStorage, string, ocispec.Descriptor) ([]string, error) {
	return nil, errors.New("no signature")
}

func openStore(t testing.TB) *registry.Store {
	t.Helper()
	s, err := registry.Open(t.TempDir(), registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// router writes a module folder that needs no weights. more is appended to the
// required keys.
func router(t testing.TB, dir, name, version, more string) {
	t.Helper()
	write(t, filepath.Join(dir, modules.FileName), fmt.Sprintf("name: %s\nversion: %s\ntype: router\nabi: mm-abi-1.0\nlicense: MIT\ntool_call_tokens: [\"<tool_call>\", \"</tool_call>\"]\n%s", name, version, more))
}

func write(t testing.TB, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// put packs a module into a store under a name.
func put(t testing.TB, s *registry.Store, name, version, ref string) ocispec.Descriptor {
	t.Helper()
	dir := t.TempDir()
	router(t, dir, name, version, "")
	m, list := modules.Load(dir)
	if list.Failed() {
		t.Fatal(list)
	}
	_, desc, err := modelpack.Pack(context.Background(), s, m)
	if err == nil && ref != "" {
		err = s.Tag(context.Background(), desc, ref)
	}
	if err != nil {
		t.Fatal(err)
	}
	return desc
}

// graph requires routers, the only modules of these tests; each ref is listed
// as a skill, whose type is not checked here.
func graph(t testing.TB, refs ...string) *builds.Graph {
	t.Helper()
	text := "core:\n  llm: {ref: \"" + refs[0] + "\"}\n"
	if len(refs) > 1 {
		text += "skills:\n"
		for _, r := range refs[1:] {
			text += "  - {ref: \"" + r + "\"}\n"
		}
	}
	g, list := builds.Parse(filepath.Join(t.TempDir(), "g.graph.yaml"), []byte(text))
	if list.Failed() {
		t.Fatal(list)
	}
	return g
}

// chosen is "name@version origin" of each module.
func chosen(lock *builds.Lock) string {
	var parts []string
	if lock != nil {
		for _, m := range lock.Modules {
			parts = append(parts, m.Name+"@"+m.Version+" "+m.Source)
		}
	}
	return strings.Join(parts, ", ")
}

func tags(t testing.TB, s *registry.Store) string {
	t.Helper()
	list, err := s.Tags(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	var refs []string
	for _, tag := range list {
		refs = append(refs, tag.Ref)
	}
	return strings.Join(refs, " ")
}

func blobs(t testing.TB, s *registry.Store) int {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(s.Dir(), "blobs", "sha256"))
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// serve starts a registry of the store.
func serve(t testing.TB, s *registry.Store) (host string, c *remote.Client) {
	t.Helper()
	srv, err := server.New(s, server.Options{})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(srv)
	t.Cleanup(web.Close)
	c, err = remote.New(remote.Options{Retries: -1, Credentials: func(context.Context, string) (auth.Credential, error) { return auth.EmptyCredential, nil }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return strings.TrimPrefix(web.URL, "http://"), c
}

func want1(t testing.TB, err error, code diag.Code, parts ...string) {
	t.Helper()
	list, ok := diag.From(err)
	if !ok || len(list) != 1 || list[0].Code != code {
		t.Fatalf("%v, want one %s", err, code)
	}
	for _, part := range parts {
		if !strings.Contains(list[0].String()+" "+list[0].Hint, part) {
			t.Errorf("%s: missing %q", list[0], part)
		}
	}
}

// A folder's module is found by the name in its module.yaml, whatever the
// folder's name and the quoting; only the chosen one is packed.
func TestFolder(t *testing.T) {
	ctx, dir, store := context.Background(), t.TempDir(), openStore(t)
	router(t, filepath.Join(dir, "eyes"), `"vision-enc"`, "1.0.0", "")
	router(t, filepath.Join(dir, "vision-enc"), "other", "9.0.0", "description: \"name: vision-enc\"\n")
	router(t, filepath.Join(dir, "newest"), "vision-enc", "1.2.0", "")
	router(t, filepath.Join(dir, "rc"), "'vision-enc'", "2.0.0-rc.1", "")
	write(t, filepath.Join(dir, "broken", modules.FileName), "name: [")
	write(t, filepath.Join(dir, "notes.txt"), "name: vision-enc")
	src := &Folder{Dir: dir, Store: store}
	found, err := src.Candidates(ctx, Query{Name: "vision-enc"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range found {
		got = append(got, c.Version.String()+" "+strings.TrimPrefix(c.Origin, filepath.Base(dir)+"/"))
	}
	slices.Sort(got)
	if s := strings.Join(got, ", "); s != "1.0.0 eyes, 1.2.0 newest, 2.0.0-rc.1 rc" {
		t.Errorf("found %s", s)
	}
	if n := blobs(t, store); n != 0 {
		t.Errorf("looking stored %d blobs", n)
	}
	found1, lock, err := Resolve(ctx, graph(t, "vision-enc@^1"), Options{Sources: []Source{src}})
	if err != nil || found1["vision-enc"].Manifest.Version != "1.2.0" || found1["vision-enc"].SignedBy != nil {
		t.Fatalf("%s, %v", chosen(lock), err)
	}
	if n := blobs(t, store); n != 3 {
		t.Errorf("one module of one file has %d blobs", n)
	}
	if _, ok := found1["vision-enc"].Layer(modules.FileName); !ok {
		t.Error("no layer module.yaml")
	}
	if _, ok := found1["vision-enc"].Layer("else"); ok {
		t.Error("a layer of no file")
	}
	digest := lock.Modules[0].Digest
	if _, lock, err = Resolve(ctx, graph(t, "vision-enc@"+digest), Options{Sources: []Source{src}}); err != nil || lock.Modules[0].Digest != digest {
		t.Errorf("by digest: %s, %v", chosen(lock), err)
	}
	if missing, err := (&Folder{Dir: filepath.Join(dir, "none")}).Candidates(ctx, Query{Name: "x"}); missing != nil || err != nil {
		t.Errorf("a missing folder: %v, %v", missing, err)
	}
}

// A module.yaml is checked by its size before it is read, and its faults are
// reported if it is the requested one.
// A linked module folder is a module folder; a link to nothing is named.
func TestFolderLinks(t *testing.T) {
	ctx, dir, away := context.Background(), t.TempDir(), t.TempDir()
	router(t, filepath.Join(away, "v2"), "eyes", "2.0.0", "")
	for link, to := range map[string]string{"eyes": filepath.Join(away, "v2"), "ears": filepath.Join(away, "none"), "file": filepath.Join(away, "v2", modules.FileName)} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Skip("skipped: no symbolic links")
		}
	}
	src := &Folder{Dir: dir}
	if found, err := src.Candidates(ctx, Query{Name: "eyes"}); err != nil || len(found) != 1 || found[0].Version.String() != "2.0.0" {
		t.Errorf("%v, %v", found, err)
	}
	if _, err := src.Candidates(ctx, Query{Name: "ears"}); err == nil || !strings.Contains(err.Error(), "ears") {
		t.Errorf("link to nothing: %v", err)
	}
}

// A manifest is read once for all names, and again after a change.
func TestFolderReadsChanges(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	router(t, filepath.Join(dir, "m"), "eyes", "2.0.0", "")
	src := &Folder{Dir: dir}
	versions := func(name string) (out []string) {
		t.Helper()
		found, err := src.Candidates(ctx, Query{Name: name})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range found {
			out = append(out, c.Version.String())
		}
		return out
	}
	file := filepath.Join(dir, "m", modules.FileName)
	if got := versions("eyes"); !slices.Equal(got, []string{"2.0.0"}) {
		t.Errorf("got %v", got)
	}
	before := src.files[file]
	if versions("eyes"); src.files[file] != before || before == nil {
		t.Error("an unchanged manifest is read again")
	}
	router(t, filepath.Join(dir, "m"), "noses", "2.0.1", "")
	if eyes, noses := versions("eyes"), versions("noses"); eyes != nil || !slices.Equal(noses, []string{"2.0.1"}) {
		t.Errorf("after a change: got %v and %v", eyes, noses)
	}
}

func TestFolderFaults(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	huge := filepath.Join(dir, "huge", modules.FileName)
	write(t, huge, "name: huge\n")
	if err := os.Truncate(huge, 1<<40); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "wrong", modules.FileName), "name: mine\nversion: one\ntype: router\nabi: mm-abi-1.0\nlicense: MIT\n")
	write(t, filepath.Join(dir, "text", modules.FileName), "{")
	src := &Folder{Dir: dir}
	for name, code := range map[string]diag.Code{"huge": diag.TooLarge, "mine": diag.BadVersion, "text": diag.Syntax} {
		_, err := src.Candidates(ctx, Query{Name: name})
		list, _ := diag.From(err)
		if !slices.ContainsFunc(list, func(d diag.Diagnostic) bool { return d.Code == code }) {
			t.Errorf("%s: %v, want %s", name, err, code)
		}
	}
	if found, err := src.Candidates(ctx, Query{Name: "else"}); found != nil || err != nil {
		t.Errorf("%v, %v", found, err)
	}
	_, _, err := Resolve(ctx, graph(t, "mine@^1"), Options{Sources: []Source{src}})
	if list, ok := diag.From(err); !ok || !strings.HasPrefix(list[0].Pos.File, dir) {
		t.Errorf("%v: missing position", err)
	}
}

func TestRegistry(t *testing.T) {
	ctx, there, here := context.Background(), openStore(t), openStore(t)
	put(t, there, "core", "1.0.0", "team/core:1.0.0")
	old := put(t, there, "core", "1.1.0", "team/core:1.1.0")
	put(t, there, "core", "1.1.1+b.7", "team/core:1.1.1_b.7")
	put(t, there, "core", "2.0.0", "team/core:latest")
	ix, err := artifact.PackIndex(ctx, there, []artifact.IndexEntry{{Descriptor: old, Target: "x"}}, nil)
	if err == nil {
		err = there.Tag(ctx, ix, "team/core:1.9.0")
	}
	if err != nil {
		t.Fatal(err)
	}
	host, client := serve(t, there)
	ver := &trusting{}
	src := &Registry{Client: client, Prefix: host + "/team", Into: here, Verifier: ver}
	opt := Options{Sources: []Source{src}}
	for ref, want := range map[string]string{
		"core@1.0": "core@1.0.0", "core@~1.1.0": "core@1.1.1+b.7", "core@^1": "core@1.1.1+b.7", host + "/team/core@1.1.0": "core@1.1.0",
		"core@" + old.Digest.String(): "core@1.1.0", host + "/team/core@" + old.Digest.String(): "core@1.1.0",
	} {
		_, lock, err := Resolve(ctx, graph(t, ref), opt)
		if got, want := chosen(lock), want+" "+host+"/team/core"; err != nil || got != want {
			t.Errorf("%s: got %q, %v; want %q", ref, got, err, want)
		}
	}
	if got := tags(t, here); got != strings.ReplaceAll("H/team/core:1.0.0 H/team/core:1.1.0 H/team/core:1.1.1_b.7", "H", host) {
		t.Errorf("the store has %s", got)
	}
	for _, r := range ver.asked {
		if r != host+"/team/core" {
			t.Errorf("asked about %s", r)
		}
	}
	_, _, err = Resolve(ctx, graph(t, "core@^3"), opt)
	want1(t, err, diag.NoVersion, "graph asks for core@^3; there is 1.9.0, 1.1.1+b.7, 1.1.0, 1.0.0")
	_, _, err = Resolve(ctx, graph(t, "other@^3"), opt)
	want1(t, err, diag.NotFound, "graph asks for other@^3; no version of it is at hand; looked in "+host+"/team")
	_, _, err = Resolve(ctx, graph(t, "elsewhere.example/team/core@^1"), opt)
	want1(t, err, diag.NoVersion, "elsewhere.example/team/core@^1")
	_, _, err = Resolve(ctx, graph(t, "core@sha256:"+strings.Repeat("0", 64)), opt)
	want1(t, err, diag.NoVersion, "core@sha256:000")
	if _, _, err = Resolve(ctx, graph(t, "core@^1"), Options{Sources: []Source{&Registry{Client: client, Prefix: "nohost", Into: here, Verifier: ver}}}); err == nil || !strings.Contains(err.Error(), "looking for core in nohost") {
		t.Error(err)
	}
}

// Of equal versions the earlier source wins; a lock from a registry holds
// against a folder of the same version.
func TestOrderOfSources(t *testing.T) {
	ctx, dir, store := context.Background(), t.TempDir(), openStore(t)
	router(t, filepath.Join(dir, "core"), "core", "1.0.0", "description: of the folder\n")
	put(t, store, "core", "1.0.0", "reg.example/team/core:1.0.0")
	src := []Source{&Folder{Dir: dir, Store: store}, &Layout{From: store, Into: store, Verifier: &trusting{}, Label: "store"}}
	g := graph(t, "core@^1")
	_, fresh, err := Resolve(ctx, g, Options{Sources: src})
	if err != nil || !strings.HasSuffix(chosen(fresh), "/core") || fresh.Modules[0].SignedBy != nil {
		t.Errorf("%s, %v", chosen(fresh), err)
	}
	_, released, err := Resolve(ctx, g, Options{Sources: src[1:]})
	if err != nil || chosen(released) != "core@1.0.0 reg.example/team/core" {
		t.Fatalf("%s, %v", chosen(released), err)
	}
	for _, locked := range []bool{true, false} {
		_, got, err := Resolve(ctx, g, Options{Sources: src, Lock: released, Locked: locked})
		if err != nil || chosen(got) != chosen(released) {
			t.Errorf("locked %v: %s, %v", locked, chosen(got), err)
		}
		_, got, err = Resolve(ctx, g, Options{Sources: src, Lock: fresh, Locked: locked})
		if err != nil || chosen(got) != chosen(fresh) {
			t.Errorf("locked %v: %s, %v", locked, chosen(got), err)
		}
	}
}

func TestLook(t *testing.T) {
	ctx, dir, store := context.Background(), t.TempDir(), openStore(t)
	router(t, filepath.Join(dir, "a"), "core", "1.0.0", "requires: [broken@^1, gone@^1]\n")
	router(t, filepath.Join(dir, "b"), "broken", "1.0.0", "colour: red\n")
	router(t, filepath.Join(dir, "c"), "old", "1.0.0", "")
	put(t, store, "unsigned", "1.0.0", "unsigned:1.0.0")
	given := &modules.Manifest{Name: "given", Version: "1.0.0", Type: abi.Skill}
	src := []Source{Manifests{given}, &Folder{Dir: dir}, &Layout{From: store, Verifier: refusing{}, Label: "store"}}
	before := blobs(t, store)
	got, list, err := Look(ctx, graph(t, "core@^1", "given@1", "old@^2", "unsigned@^1", "nowhere@^1"), Options{Sources: src})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, name := range sorted(got) {
		if got[name] == nil {
			name += "!"
		}
		names = append(names, name)
	}
	if s := strings.Join(names, " "); s != "broken! core given old! unsigned!" {
		t.Errorf("found %s", s)
	}
	var codes []string
	for _, d := range list {
		codes = append(codes, string(d.Severity)+" "+string(d.Code))
	}
	slices.Sort(codes)
	if s := strings.Join(codes, ", "); s != "error MM0101, warning MM0320, warning MM0403" {
		t.Errorf("%s\n%v", s, list)
	}
	if n := blobs(t, store); n != before {
		t.Errorf("looking stored %d blobs", n-before)
	}
	if _, _, err := Resolve(ctx, graph(t, "given@1"), Options{Sources: src}); err == nil {
		t.Error("a manifest without a store was fetched")
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if _, _, err := Look(cancelled, graph(t, "core@^1"), Options{Sources: src}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
