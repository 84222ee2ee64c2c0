package hub_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/registry/hub"
	"mm-abi.org/mm/registry/registrytest"
)

func client(t testing.TB, d *registrytest.Hub, token string) *hub.Client {
	t.Helper()
	c, err := hub.New(hub.Options{Endpoint: d.URL, Token: token})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func ref(t testing.TB, text string) hub.Ref {
	t.Helper()
	r, err := hub.ParseRef(text)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// contents are the files of a small model.
func contents() map[string][]byte {
	return map[string][]byte{
		"README.md":           []byte("---\nlicense: apache-2.0\n---\n# small\n"),
		"config.json":         []byte("{}"),
		"empty":               {},
		"core/a b#ü.gguf":     bytes.Repeat([]byte("weights\x00"), 5000),
		"core/same.gguf":      bytes.Repeat([]byte("weights\x00"), 5000),
		"encoder/model.onnx":  bytes.Repeat([]byte{1, 2, 3, 0}, 9000),
		"encoder/module.yaml": []byte("name: encoder\n"),
	}
}

func files(m map[string][]byte) []hub.File {
	var out []hub.File
	for p, data := range m {
		out = append(out, hub.File{Path: p, Size: int64(len(data)), SHA256: registrytest.Digest(data), Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }})
	}
	slices.SortFunc(out, func(a, b hub.File) int { return strings.Compare(a.Path, b.Path) })
	return out
}

// read returns the files below a folder.
func read(t testing.TB, dir string) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	err := filepath.WalkDir(dir, func(p string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name, _ := filepath.Rel(dir, p)
		out[filepath.ToSlash(name)], err = os.ReadFile(p)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestParseRef(t *testing.T) {
	for text, want := range map[string]hub.Ref{
		"hf://me/small":                {Repository: "me/small"},
		"hf.co/me/small:Q4_K_M":        {Repository: "me/small", Quant: "Q4_K_M"},
		"hf://me/sm.all-1_b@v1.0":      {Repository: "me/sm.all-1_b", Revision: "v1.0"},
		"hf://me/small:Q8_0@refs/pr/1": {Repository: "me/small", Quant: "Q8_0", Revision: "refs/pr/1"},
		"huggingface.co/me/small@abc":  {Repository: "me/small", Revision: "abc"},
		"hf://" + "m/" + long(96):      {Repository: "m/" + long(96)},
		"hf://me/small@" + long(96):    {Repository: "me/small", Revision: long(96)},
		"hf://me/small:" + long(96):    {Repository: "me/small", Quant: long(96)},
	} {
		if got, err := hub.ParseRef(text); err != nil || got != want {
			t.Errorf("%s: got %+v, %v, want %+v", text, got, err, want)
		} else if again, err := hub.ParseRef(got.String()); err != nil || again != want {
			t.Errorf("%s: came back as %s", text, got)
		}
	}
	for _, text := range []string{
		"", "hf://", "hf://me", "hf://me/", "hf:///small", "hf://me/small/x", "me/small", "hf://me/../x", "hf://me/..", "hf://me/small:", "hf://me/small@",
		"hf://me/small@a/../b", "hf://me/sm all", "hf://me/small?x", "hf://me/-x", "hf://m/" + long(97), "hf://me/small@" + long(97), "hf://me/small:" + long(97), "https://hf.co/me/small", "hf://me/smäll",
	} {
		if got, err := hub.ParseRef(text); err == nil {
			t.Errorf("%s: got %+v", text, got)
		}
	}
}

func long(n int) string { return strings.Repeat("a", n) }

// Pushed files come back, sent at once and in parts, and a second push sends nothing.
func TestPushPull(t *testing.T) {
	for name, chunk := range map[string]int{"basic": 0, "multipart": 7000} {
		t.Run(name, func(t *testing.T) {
			d := registrytest.NewHub(t)
			d.Chunk, d.Token, d.Page = chunk, "hf_secret", 2
			c := client(t, d, "hf_secret")
			r := ref(t, "hf://me/small")
			got, err := c.Push(t.Context(), r, files(contents()), hub.PushOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if got.Sent != 2 || got.Present != 0 || got.Bytes != 40000+36000 || got.Commit == "" {
				t.Errorf("first push: %+v", got)
			}
			puts := d.Puts
			again, err := c.Push(t.Context(), r, files(contents()), hub.PushOptions{Message: "again"})
			if err != nil || again.Sent != 0 || again.Present != 2 || d.Puts != puts {
				t.Errorf("second push: %+v, %v", again, err)
			}
			dir := t.TempDir()
			pulled, err := c.Pull(t.Context(), r, dir, hub.PullOptions{Include: []string{"*", "*/*"}})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(contents(), read(t, dir)); diff != "" {
				t.Error(diff)
			}
			if pulled.Tree.Commit != again.Commit || pulled.Tree.License != "apache-2.0" || pulled.Fetched != 7 {
				t.Errorf("pulled %+v", pulled)
			}
			if p, err := c.Pull(t.Context(), r, dir, hub.PullOptions{Include: []string{"*"}}); err != nil || p.Bytes != 0 {
				t.Errorf("second pull: %+v, %v", p, err)
			}
			if len(d.Foreign) > 0 {
				t.Errorf("the storage host saw %q", d.Foreign)
			}
		})
	}
}

// An interrupted pull is resumed, and a damaged part is noticed and fetched again.
func TestPullResumes(t *testing.T) {
	d := registrytest.NewHub(t)
	c := client(t, d, "")
	r := ref(t, "hf://me/small")
	if _, err := c.Push(t.Context(), r, files(contents()), hub.PushOptions{}); err != nil {
		t.Fatal(err)
	}
	model := contents()["encoder/model.onnx"]
	dir := t.TempDir()
	part := filepath.Join(dir, "encoder", "model.onnx.part")
	if err := os.MkdirAll(filepath.Dir(part), 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(b []byte) {
		if err := os.WriteFile(part, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	only := hub.PullOptions{Include: []string{"model.onnx"}}
	write(model[:20000])
	got, err := c.Pull(t.Context(), r, dir, only)
	if err != nil || got.Bytes != int64(len(model)-20000) || d.Ranges != 1 {
		t.Errorf("resumed: %+v, %v, %d ranges", got, err, d.Ranges)
	}
	if err := os.Remove(filepath.Join(dir, "encoder", "model.onnx")); err != nil {
		t.Fatal(err)
	}
	write(append([]byte("damage"), model[6:20000]...))
	if _, err := c.Pull(t.Context(), r, dir, only); err == nil || !strings.Contains(err.Error(), "does not match the listing") {
		t.Errorf("a damaged part: %v", err)
	}
	if _, err := c.Pull(t.Context(), r, dir, only); err != nil {
		t.Error(err)
	}
	if !bytes.Equal(read(t, dir)["encoder/model.onnx"], model) {
		t.Error("the file differs")
	}
	if err := os.WriteFile(filepath.Join(dir, "encoder", "model.onnx"), []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Pull(t.Context(), r, dir, only); err == nil || !strings.Contains(err.Error(), "other content") {
		t.Errorf("the user's file: %v", err)
	}
}

// Pushes survive temporary answers, stop at others, and a cut one continues.
func TestPushFaults(t *testing.T) {
	d := registrytest.NewHub(t)
	c := client(t, d, "")
	r := ref(t, "hf://me/small")
	busy := map[string]int{}
	d.Fault = func(r *http.Request) (int, string) {
		if busy[r.URL.Path]++; busy[r.URL.Path] == 1 {
			return 429, ""
		}
		return 0, ""
	}
	if _, err := c.Push(t.Context(), r, files(contents()), hub.PushOptions{}); err != nil {
		t.Errorf("every first request refused by 429: %v", err)
	}
	for _, f := range []struct {
		name, path string
		status     int
		body, want string
	}{
		{"no rights", "/api/repos/create", 403, `{"error":"You don't have the rights"}`, "don't have the rights (no token"},
		{"too large", "/me/small.git/info/lfs/objects/batch", 413, "", "413"},
		{"a commit meanwhile", "/api/models/me/small/commit/main", 412, `{"error":"A commit has happened since"}`, "publish again"},
		{"not JSON", "/api/models/me/small/preupload/main", 200, "<html>", "invalid character"},
		{"no answer for a file", "/api/models/me/small/preupload/main", 200, `{"files":[]}`, "want regular or lfs"},
		{"an object refused", "/me/small.git/info/lfs/objects/batch", 200, `{"objects":[{"oid":"` + registrytest.Digest(contents()["encoder/model.onnx"]) + `","error":{"code":422,"message":"bad"}},{"oid":"` + registrytest.Digest(contents()["core/same.gguf"]) + `"}]}`, "422 bad"},
		{"an upload without TLS", "/me/small.git/info/lfs/objects/batch", 200, `{"objects":[{"oid":"` + registrytest.Digest(contents()["core/same.gguf"]) + `","actions":{"upload":{"href":"http://elsewhere.example/x"}}}]}`, "bad URL for the upload"},
	} {
		d.Fault = func(r *http.Request) (int, string) {
			if r.URL.Path == f.path {
				return f.status, f.body
			}
			return 0, ""
		}
		_, err := c.Push(t.Context(), r, files(contents()), hub.PushOptions{})
		if err == nil || !strings.Contains(err.Error(), f.want) {
			t.Errorf("%s: got %v, want %q in it", f.name, err, f.want)
		}
	}
	d.Fault = nil
	with := files(map[string][]byte{"x.ignored": []byte("x")})
	if _, err := c.Push(t.Context(), r, with, hub.PushOptions{}); err == nil || !strings.Contains(err.Error(), "x.ignored") {
		t.Errorf("an ignored file: %v", err)
	}
	if _, err := c.Tree(t.Context(), ref(t, "hf://me/none")); !errors.Is(err, hub.ErrMissing) {
		t.Errorf("a missing repository: %v", err)
	}
	if len(d.Foreign) > 0 {
		t.Errorf("the storage host saw %q", d.Foreign)
	}
}

// Listings are not trusted.
func TestHostileTree(t *testing.T) {
	d := registrytest.NewHub(t)
	c := client(t, d, "")
	id := strings.Repeat("a", 40)
	file := func(path, more string) string {
		return `[{"type":"file","path":"` + path + `","size":1,"oid":"` + id + `"` + more + `}]`
	}
	for name, list := range map[string]string{
		"a path out":      file("../x", ""),
		"absolute":        file("/etc/x", ""),
		"a drive":         file("c:x", ""),
		"backslashes":     file(`a\\..\\b`, ""),
		"not clean":       file("a//b", ""),
		"git's":           file(".git/config", ""),
		"a control":       file(`a\u0000b`, ""),
		"too long":        file(long(513), ""),
		"a bad id":        strings.Replace(file("x", ""), id, "zz", 1),
		"a bad LFS id":    file("x", `,"lfs":{"oid":"abc","size":1}`),
		"a negative size": strings.Replace(file("x", ""), `:1,`, `:-1,`, 1),
	} {
		d.Fault = func(r *http.Request) (int, string) {
			switch {
			case strings.Contains(r.URL.Path, "/tree/"):
				return 200, list
			case strings.Contains(r.URL.Path, "/revision/"):
				return 200, `{"sha":"` + id + `"}`
			}
			return 0, ""
		}
		if got, err := c.Tree(t.Context(), ref(t, "hf://me/small")); err == nil {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

func TestChoose(t *testing.T) {
	tree := &hub.Tree{}
	for _, p := range []string{"README.md", "m-Q4_K_M.gguf", "m-q8_0-00001-of-00002.gguf", "m-q8_0-00002-of-00002.gguf", "m-UD-Q4_K_M.gguf", "mmproj-F16.gguf"} {
		tree.Files = append(tree.Files, hub.Entry{Path: p})
	}
	for _, c := range []struct {
		ref     string
		include []string
		want    string // or the error
	}{
		{"hf://me/m:q4_k_m", nil, "README.md m-Q4_K_M.gguf mmproj-F16.gguf"},
		{"hf://me/m:Q8_0", nil, "README.md m-q8_0-00001-of-00002.gguf m-q8_0-00002-of-00002.gguf mmproj-F16.gguf"},
		{"hf://me/m", nil, "hf://me/m has 3 quantizations: name one, as in hf://me/m:Q4_K_M (Q4_K_M, Q8_0, UD-Q4_K_M)"},
		{"hf://me/m:Q2_K", nil, `got quantization "Q2_K", want one of Q4_K_M, Q8_0, UD-Q4_K_M`},
		{"hf://me/m", []string{"*.md", "*Q4_K_M*"}, "README.md m-Q4_K_M.gguf m-UD-Q4_K_M.gguf"},
		{"hf://me/m", []string{"*.md", "*.onnx"}, `no file matches "*.onnx"`},
		{"hf://me/m", []string{"["}, "syntax error in pattern"},
	} {
		got, err := tree.Choose(ref(t, c.ref), c.include)
		var names []string
		for _, f := range got {
			names = append(names, f.Path)
		}
		text := strings.Join(names, " ")
		if err != nil {
			text = err.Error()
		}
		if !strings.Contains(text, c.want) {
			t.Errorf("%s %v: got %s, want %s", c.ref, c.include, text, c.want)
		}
	}
}

// Several models in a repository differ from quantizations of one.
func TestChooseModels(t *testing.T) {
	tree := &hub.Tree{Files: []hub.Entry{{Path: "core-llm.gguf"}, {Path: "core-senses.gguf"}, {Path: "draft-Q8_0.gguf"}, {Path: "main-Q4_0.gguf"}}}
	if got, err := tree.Choose(ref(t, "hf://me/m"), nil); err != nil || len(got) != 4 {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestNew(t *testing.T) {
	for _, c := range []struct {
		opt hub.Options
		ok  bool
	}{
		{hub.Options{}, true},
		{hub.Options{Endpoint: "https://hub.example/"}, true},
		{hub.Options{Endpoint: "http://127.0.0.1:9", Token: "x"}, true},
		{hub.Options{Endpoint: "http://hub.example"}, true},
		{hub.Options{Endpoint: "http://hub.example", Token: "x"}, false},
		{hub.Options{Endpoint: "hub.example"}, false},
		{hub.Options{Endpoint: "ftp://hub.example"}, false},
	} {
		if _, err := hub.New(c.opt); (err == nil) != c.ok {
			t.Errorf("%+v: %v", c.opt, err)
		}
	}
}
