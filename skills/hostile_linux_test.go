//go:build amd64 || arm64

package skills_test

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	godigest "github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/builds"
	"mm-abi.org/mm/modules"
	"mm-abi.org/mm/skills"
	"mm-abi.org/mm/skills/sandbox"
	"mm-abi.org/mm/skills/sandbox/mcpclient"
	"mm-abi.org/mm/skills/sandbox/oci"
	"mm-abi.org/mm/skills/sandbox/process"
	"mm-abi.org/mm/skills/sandbox/python"
	"mm-abi.org/mm/skills/sandbox/starlark"
	"mm-abi.org/mm/skills/sandbox/wasm"
)

// TestMain runs the tests, or mm as the parent of a native guest.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == process.Command {
		process.Inner()
	}
	os.Exit(m.Run())
}

// compileThief builds testdata/thief for a system.
func compileThief(t *testing.T, goos, arch, path string) {
	t.Helper()
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", path, "./testdata/thief")
	cmd.Env = append(os.Environ(), "GOOS="+goos, "GOARCH="+arch, "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("skipped: go does not build a guest for %s: %v\n%s", goos, err, out)
	}
}

// blobs is a store of the bytes of images.
type blobs map[string][]byte

func (b blobs) add(media string, data []byte) ocispec.Descriptor {
	d := godigest.FromBytes(data)
	b[d.Encoded()] = data
	return ocispec.Descriptor{MediaType: media, Digest: d, Size: int64(len(data))}
}

func (b blobs) document(media string, v any) ocispec.Descriptor {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b.add(media, data)
}

func (b blobs) open(_ context.Context, sha string) (io.ReadCloser, error) {
	data, ok := b[sha]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return io.NopCloser(bytes.NewReader(data)), nil
}

// image returns the reference of an image with one program.
func (b blobs) image(t *testing.T, program []byte) string {
	t.Helper()
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	if err := w.WriteHeader(&tar.Header{Name: "thief", Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(program))}); err != nil {
		t.Fatal(err)
	}
	w.Write(program)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	layerDesc := b.add(ocispec.MediaTypeImageLayer, layer.Bytes())
	config := ocispec.Image{Platform: ocispec.Platform{Architecture: runtime.GOARCH, OS: "linux"}, Config: ocispec.ImageConfig{Entrypoint: []string{"/thief"}}}
	config.RootFS = ocispec.RootFS{Type: "layers", DiffIDs: []godigest.Digest{layerDesc.Digest}}
	m := ocispec.Manifest{MediaType: ocispec.MediaTypeImageManifest, Config: b.document(ocispec.MediaTypeImageConfig, config), Layers: []ocispec.Descriptor{layerDesc}}
	m.SchemaVersion = 2
	return "thief@" + b.document(ocispec.MediaTypeImageManifest, m).Digest.String()
}

// hostile is a hostile skill of one executor.
type hostile struct {
	runtime string // of its module.yaml, with the permissions that it asks for
	file    string
	grants  []string // that let it run without a secret
	reads   bool     // the executor can grant files
	env     bool     // the executor can grant variables
}

// crowd is a hostile skill for each executor, in a folder with their programs.
func crowd(t *testing.T, asks string) (dir string, all map[string]hostile, run map[string]sandbox.Executor) {
	t.Helper()
	dir = t.TempDir()
	native := filepath.Join(dir, "thief.elf")
	compileThief(t, "wasip1", "wasm", filepath.Join(dir, "thief.wasm"))
	compileThief(t, "linux", runtime.GOARCH, native)
	for _, name := range []string{"thief.star", "thief.py"} {
		data, err := os.ReadFile(filepath.Join("testdata", name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), data, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	code, err := os.ReadFile(native)
	if err != nil {
		t.Fatal(err)
	}
	guests, err := wasm.New(t.Context(), wasm.Options{Cache: filepath.Join(dir, "compiled")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { guests.Close() })
	programs, stored := process.New(), blobs{}
	run = map[string]sandbox.Executor{
		"wasm": guests, "starlark": starlark.Executor{}, "process": programs, "mcp": mcpclient.Executor{Programs: programs},
		"python":    python.New(python.Options{Engine: guests, Fallback: starlark.Executor{}, Interpreter: func(context.Context) ([]byte, error) { return nil, fs.ErrNotExist }}),
		"container": oci.New(oci.Options{Dir: filepath.Join(dir, "images"), Blob: stored.open, Programs: programs}),
	}
	limits := "limits: {mem: 256Mi, timeout_ms: 60000}, " + asks
	all = map[string]hostile{
		"wasm":      {"wasm: thief.wasm, " + limits, "thief.wasm", nil, true, true},
		"starlark":  {"starlark: thief.star, " + limits, "thief.star", nil, false, false},
		"python":    {"python: thief.py, " + limits, "thief.py", nil, false, false},
		"process":   {"process: thief.elf, " + limits, "thief.elf", []string{"clock,random"}, true, true},
		"container": {"container: " + stored.image(t, code) + ", " + strings.Replace(limits, "read: ["+secretDir+"], ", "", 1), "", []string{"clock,random"}, false, true},
	}
	if err := programs.Probe(t.Context()); err != nil {
		t.Logf("native programs do not run here: %v", err)
		delete(all, "process")
		delete(all, "container")
		return dir, all, run
	}
	spec := &modules.MCP{Command: "thief.elf", Args: []string{"serve"}, Tool: "steal"}
	tools, err := mcpclient.Executor{Programs: programs}.Tools(t.Context(), sandbox.Program{
		Name: "mcp", Code: code, Args: spec.Args, MCP: spec, Limits: modules.Effective{MemBytes: 256 << 20, TimeoutMS: 60_000}, Allow: modules.Allow{Clock: true, Random: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	all["mcp"] = hostile{"mcp: {command: thief.elf, args: [serve], tool: steal, tools_sha256: " + tools.SHA256 + "}, " + limits, "thief.elf", []string{"clock,random"}, true, true}
	return dir, all, run
}

// secretDir is replaced by the folder of the secret.
const secretDir = "SECRETS"

// hostileBuild is a build of one skill, whose manifest asks for everything.
func hostileBuild(t *testing.T, dir, engine string, h hostile) *builds.Build {
	t.Helper()
	m := manifest(t, "thief", "{name: path, type: str}, {name: name, type: str}", "{name: answer, type: str}", h.runtime)
	b := build(t, nil, m)
	b.Files = folder(dir)
	if h.file != "" {
		b.Assembly.Skills[0].Files[engine] = []string{h.file}
	}
	return b
}

// TestGrants attacks with a skill of each executor, which asks for the user's key
// and for a variable. Without a grant it gets neither; with one it gets the part
// that was granted, which shows that the attack works.
func TestGrants(t *testing.T) {
	home := t.TempDir()
	for _, dir := range []string{home, filepath.Dir(home)} { // a native guest of root has another user
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	key := filepath.Join(home, "id_ed25519")
	if err := os.WriteFile(key, []byte("KEYSECRET"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("MM_TEST_SECRET", "ENVSECRET")
	dir, all, run := crowd(t, "allow: {read: ["+secretDir+"], env: [MM_TEST_SECRET], clock: true, random: true}")
	for engine, h := range all {
		t.Run(engine, func(t *testing.T) {
			h.runtime = strings.ReplaceAll(h.runtime, secretDir, home)
			b := hostileBuild(t, dir, engine, h)
			steal := func(root string, grants ...string) string {
				opt := skills.Options{Executors: run, Root: root}
				for _, text := range grants {
					g, err := modules.ParseGrant("thief=" + text)
					if err != nil {
						t.Fatal(err)
					}
					opt.Grants = append(opt.Grants, g)
				}
				set, err := skills.Open(t.Context(), b, opt)
				if err != nil {
					t.Fatal(err)
				}
				defer set.Close()
				a, err := set.Call(t.Context(), abi.ToolCall{Tool: "thief", Args: map[string]any{"path": key, "name": "MM_TEST_SECRET"}}, nil)
				if err != nil {
					t.Fatal(err)
				}
				return a.Line + string(a.Log)
			}
			if got := steal(""); strings.Contains(got, "SECRET") && !strings.Contains(got, "MM_TEST_SECRET") {
				t.Errorf("without a grant: %s", got)
			}
			for _, c := range []struct {
				grant, root, want string
				can               bool
			}{
				{"read:" + home, "", "KEYSECRET", h.reads},
				{"read:" + key, "", "KEYSECRET", h.reads && engine != "wasm"}, // Go's WASI opens no file that is a mount
				{"read:" + home, filepath.Dir(home), "KEYSECRET", h.reads},
				{"read:" + home, dir, "KEYSECRET", false}, // outside of the root
				{"read:" + dir, "", "KEYSECRET", false},   // another folder
				{"env:MM_TEST_SECRET", "", "ENVSECRET", h.env},
				{"env:PATH", "", "ENVSECRET", false},
				{"clock,random", "", "SECRET\"", false},
			} {
				got := steal(c.root, append(h.grants, c.grant)...)
				if strings.Contains(got, c.want) != c.can {
					t.Errorf("granted %s with root %q: %.300s", c.grant, c.root, got)
				}
				if other := map[bool]string{true: "ENVSECRET", false: "KEYSECRET"}[c.want == "KEYSECRET"]; strings.Contains(got, other) {
					t.Errorf("granted %s, got %s: %s", c.grant, other, got)
				}
			}
		})
	}
}

// TestGrantedLinks checks that a link in a granted folder does not lead out of it.
func TestGrantedLinks(t *testing.T) {
	granted, home := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(home, "key"), []byte("KEYSECRET"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(home, filepath.Join(granted, "link")); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]int{filepath.Join(granted, "link"): 0, filepath.Join(granted, "link", "key"): 0, granted: 1, filepath.Join(granted, "none"): 0} {
		x := &spy{}
		m := manifest(t, "s", "{name: a, type: str}", "{name: b, type: str}", fmt.Sprintf("starlark: add.star, allow: {read: [%s]}", path))
		opt := skills.Options{Executors: map[string]sandbox.Executor{"starlark": x}, Grants: []modules.Grant{{Skill: "s", Allow: modules.Allow{Read: []string{granted}}}}}
		if _, err := skills.Open(t.Context(), build(t, nil, m), opt); err != nil {
			t.Fatal(err)
		}
		if len(x.got.Allow.Read) != want {
			t.Errorf("%s: allowed %v", path, x.got.Allow)
		}
	}
}
