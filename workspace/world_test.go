package workspace_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/registry"
	"mm-abi.org/mm/registry/artifact"
	"mm-abi.org/mm/registry/server"
	"mm-abi.org/mm/registry/sign"
	"mm-abi.org/mm/workspace"
)

// pair is a key pair without a password, made once: its encryption is slow.
type pair struct {
	private, public []byte
	key             *sign.PrivateKey
}

var pairs = [2]func() pair{newPair(), newPair()}

func newPair() func() pair {
	return sync.OnceValue(func() pair {
		private, public, err := sign.Generate(sign.Ed25519, nil)
		if err != nil {
			panic(err)
		}
		key, err := sign.LoadPrivate(private, nil)
		if err != nil {
			panic(err)
		}
		return pair{private, public, key}
	})
}

func noPassword(string) ([]byte, error) { return []byte{}, nil }

// world is a user with a home, whose key is trusted, in an empty folder.
type world struct {
	*testing.T
	home    string
	dir     string // the current folder
	printed []string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, home: filepath.Join(t.TempDir(), "home"), dir: t.TempDir()}
	t.Chdir(w.dir)
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	w.write(filepath.Join(w.home, "keys", "mm.key"), string(pairs[0]().private))
	w.write(filepath.Join(w.home, "keys", "mm.pub"), string(pairs[0]().public))
	w.write("stranger.key", string(pairs[1]().private))
	w.write("stranger.pub", string(pairs[1]().public))
	w.trust(filepath.Join(w.home, "trust.yaml"), "", "**", 0)
	return w
}

// trust writes a trust file by which the keys may sign for the pattern.
func (w *world) trust(file, more, match string, keys ...int) {
	w.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "version: 1\n%s", more)
	var names []string
	for _, k := range keys {
		names = append(names, fmt.Sprintf("key%d", k))
	}
	if match != "" {
		fmt.Fprintf(&b, "rules: [{match: %q, keys: [%s]}]\n", match, strings.Join(names, ", "))
	}
	if len(keys) > 0 {
		b.WriteString("keys:\n")
	}
	for i, k := range keys {
		fmt.Fprintf(&b, "  %s: {pem: %q}\n", names[i], pairs[k]().public)
	}
	w.write(file, b.String())
}

func (w *world) write(file, text string) {
	w.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		w.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		w.Fatal(err)
	}
}

func (w *world) open(opt workspace.Options) *workspace.Workspace {
	w.Helper()
	if opt.Home == "" {
		opt.Home = w.home
	}
	opt.Say = func(s string) { w.printed = append(w.printed, s) }
	ws, err := workspace.Open(opt)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		if err := ws.Close(); err != nil {
			w.Error(err)
		}
	})
	return ws
}

// heard reports whether a message was sent to the user, and clears the
// messages.
func (w *world) heard(part string) bool {
	ok := slices.ContainsFunc(w.printed, func(s string) bool { return strings.Contains(s, part) })
	w.printed = nil
	return ok
}

func (w *world) store() *registry.Store {
	w.Helper()
	s, err := w.open(workspace.Options{}).Store()
	if err != nil {
		w.Fatal(err)
	}
	return s
}

// content describes an artifact to pack.
type content struct {
	name, version, target string
	notes                 map[string]string // added to or, if empty, replacing mm's
	files                 map[string]string
	config                artifact.ModelConfig
	about                 map[string]map[string]string // added to the annotations of files
}

const coreManifest = `name: %s
version: %s
type: core
abi: mm-abi-1.0
license: MIT
tokens: {vocab_size: 64, max_seq: 8, d_model: 8}
export: {gguf: core.gguf}
`

const skillManifest = `name: %s
version: %s
type: skill
abi: mm-abi-1.0
license: MIT
inputs: [{name: q, type: str}]
outputs: [{name: r, type: json}]
runtime: {builtin: x}
`

// build is an artifact of one target: an assembly of one core.
func build(name, version, target string) content {
	c := content{name: name, version: version, target: target, files: map[string]string{
		"core/module.yaml": fmt.Sprintf(coreManifest, "core", "1.0.0"),
		"core/core.gguf":   strings.Repeat(name+version+target, 1000),
	}}
	a := builds.Assembly{Name: name, Version: version, ABI: abi.V1_0, Target: target,
		Core: builds.Part{Name: "core", Version: "1.0.0", Type: abi.Core, Manifest: "core/module.yaml", Files: builds.Formats{"gguf": {"core/core.gguf"}}}}
	text, err := a.Encode()
	if err != nil {
		panic(err)
	}
	c.files[builds.AssemblyFile] = string(text)
	c.notes = map[string]string{abi.AnnotationABI: string(abi.V1_0), abi.AnnotationKind: abi.KindAssembly}
	if target != "" {
		c.notes[abi.AnnotationTarget] = target
	}
	return c
}

// module is a core module.
func module(name, version string) content {
	return content{name: name, version: version,
		notes: map[string]string{abi.AnnotationABI: string(abi.V1_0), abi.AnnotationKind: abi.KindModule, abi.AnnotationType: string(abi.Core)},
		files: map[string]string{modules.FileName: fmt.Sprintf(coreManifest, name, version), "core.gguf": strings.Repeat(name+version, 1000)},
	}
}

// pack puts an artifact into a store and names it, unless ref is empty.
func (w *world) pack(s *registry.Store, c content, ref string) ocispec.Descriptor {
	w.Helper()
	ctx := context.Background()
	a := artifact.Artifact{Name: c.name, Version: c.version, Annotations: c.notes, Config: c.config}
	for _, path := range slices.Sorted(maps.Keys(c.files)) {
		desc, err := s.AddBytes(ctx, abi.MediaWeight, []byte(c.files[path]))
		if err != nil {
			w.Fatal(err)
		}
		notes := map[string]string{abi.AnnotationComponent: c.name, abi.AnnotationRole: "core", abi.AnnotationVersion: c.version}
		if strings.HasPrefix(path, "core/") {
			notes[abi.AnnotationComponent], notes[abi.AnnotationVersion] = "core", "1.0.0"
		}
		switch {
		case strings.HasSuffix(path, ".gguf"):
			notes[abi.AnnotationFormat] = "gguf"
		case strings.HasSuffix(path, modules.FileName):
			notes[abi.AnnotationRole], notes[abi.AnnotationFormat] = abi.RoleManifest, "yaml"
		default:
			notes = map[string]string{abi.AnnotationRole: abi.RoleAssembly}
		}
		maps.Copy(notes, c.about[path])
		a.Layers = append(a.Layers, artifact.Layer{Path: path, Descriptor: desc, Annotations: notes})
	}
	desc, err := artifact.Pack(ctx, s, a)
	if err != nil {
		w.Fatal(err)
	}
	w.tag(s, desc, ref)
	return desc
}

// index joins targets of one build.
func (w *world) index(s *registry.Store, name, version, ref string, targets ...string) ocispec.Descriptor {
	w.Helper()
	var entries []artifact.IndexEntry
	for _, t := range targets {
		entries = append(entries, artifact.IndexEntry{Descriptor: w.pack(s, build(name, version, t), ""), Target: t})
	}
	desc, err := artifact.PackIndex(context.Background(), s, entries, map[string]string{
		abi.AnnotationABI: string(abi.V1_0), abi.AnnotationKind: abi.KindAssembly, abi.AnnotationName: name, abi.AnnotationVersion: version})
	if err != nil {
		w.Fatal(err)
	}
	w.tag(s, desc, ref)
	return desc
}

func (w *world) tag(s *registry.Store, desc ocispec.Descriptor, ref string) {
	w.Helper()
	if ref == "" {
		return
	}
	if err := s.Tag(context.Background(), desc, ref); err != nil {
		w.Fatal(err)
	}
}

// sign releases desc with one of the pairs.
func (w *world) sign(s *registry.Store, desc ocispec.Descriptor, key int) {
	w.Helper()
	if _, err := sign.Sign(context.Background(), s, desc, pairs[key]().key, sign.Options{}); err != nil {
		w.Fatal(err)
	}
}

// flip changes one byte of the blob that holds text.
func (w *world) flip(s *registry.Store, text string) {
	w.Helper()
	top := filepath.Join(s.Dir(), "blobs", "sha256")
	entries, err := os.ReadDir(top)
	if err != nil {
		w.Fatal(err)
	}
	for _, e := range entries {
		file := filepath.Join(top, e.Name())
		data, err := os.ReadFile(file)
		if err != nil || !bytes.HasPrefix(data, []byte(text)) {
			continue
		}
		data[0] ^= 1
		if err := os.Chmod(file, 0o644); err != nil {
			w.Fatal(err)
		}
		if err := os.WriteFile(file, data, 0o644); err != nil {
			w.Fatal(err)
		}
		return
	}
	w.Fatalf("no blob begins with %.20q", text)
}

// shelf is a registry in this process that counts requests.
type shelf struct {
	store *registry.Store
	host  string
	mu    sync.Mutex
	blobs int            // GETs of blobs
	gets  map[string]int // GETs of manifests and blobs, by digest or tag
}

func (w *world) serve() *shelf {
	w.Helper()
	s, err := registry.Open(w.TempDir(), registry.Options{})
	if err != nil {
		w.Fatal(err)
	}
	h, err := server.New(s, server.Options{})
	if err != nil {
		w.Fatal(err)
	}
	r := &shelf{store: s, gets: map[string]int{}}
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		if req.Method == http.MethodGet {
			r.mu.Lock()
			if kind := path.Base(path.Dir(req.URL.Path)); kind == "manifests" || kind == "blobs" {
				r.gets[path.Base(req.URL.Path)]++
			}
			if strings.Contains(req.URL.Path, "/blobs/sha256:") {
				r.blobs++
			}
			r.mu.Unlock()
		}
		h.ServeHTTP(rw, req)
	}))
	w.Cleanup(func() { srv.Close(); s.Close() })
	r.host = strings.TrimPrefix(srv.URL, "http://")
	return r
}

// asked returns the number of blobs fetched since the last call.
func (r *shelf) asked() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.blobs
	r.blobs = 0
	return n
}

// code returns an error's diagnostic code or refusal reason.
func code(err error) string {
	if err == nil {
		return ""
	}
	if list, ok := diag.From(err); ok {
		for _, d := range list {
			if d.Severity == diag.Error {
				return string(d.Code)
			}
		}
	}
	var r *sign.Refusal
	if errors.As(err, &r) {
		return string(r.Reason)
	}
	return err.Error()
}

// hint is an error's way out.
func hint(err error) string {
	if list, ok := diag.From(err); ok && len(list) > 0 {
		return list[0].Hint
	}
	var r *sign.Refusal
	if errors.As(err, &r) {
		return r.Hint
	}
	var h interface{ Hint() string }
	if errors.As(err, &h) {
		return h.Hint()
	}
	return ""
}

// wants fails unless err has the code.
func (w *world) wants(what string, err error, want string) {
	w.Helper()
	if got := code(err); got != want {
		w.Errorf("%s: %q, want %q (%v)", what, got, want, err)
	}
}
