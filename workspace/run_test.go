package workspace_test

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"mm-abi.org/mm/abi"
	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/workspace"
	"mm-abi.org/mm/workspace/loose"
)

// modelIn copies the reference core's folder unchanged.
func (w *world) modelIn(dir string) {
	w.Helper()
	if err := os.CopyFS(dir, os.DirFS(reference)); err != nil {
		w.Fatal(err)
	}
}

// reference is the reference core's folder.
var reference = func() string {
	dir, err := os.Getwd() // the package's folder, before any test changes it
	if err != nil {
		panic(err)
	}
	return filepath.Join(dir, "..", "catalog", "core-llm")
}()

// The user's own file becomes a build: reported, audited, and without a store.
func TestRunnable(t *testing.T) {
	w := newWorld(t)
	w.modelIn("some where/core-llm")
	for _, arg := range []string{"some where/core-llm", "some where/core-llm/module.yaml", "some where/core-llm/core-llm.gguf"} {
		w.printed = nil
		b, err := w.open(workspace.Options{}).Runnable(t.Context(), arg, workspace.RunOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := strings.Join(w.printed, "\n"), arg+" is run as it stands: unsigned"; got != want {
			t.Errorf("%s: messages %q, want %q", arg, got, want)
		}
		entry := b.Assembly.Core.Files.Entry(abi.GGUF)
		path, err := b.Files.Path(entry)
		if err != nil {
			t.Fatal(err)
		}
		if want, _ := filepath.Abs("some where/core-llm/core-llm.gguf"); path != want {
			t.Errorf("%s: %s is %s, want %s", arg, entry, path, want)
		}
		dir, err := b.Files.Dir(t.Context(), entry)
		if err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(filepath.Join(dir, entry)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v in a separate folder, %v", arg, info, err)
		}
		if _, err := b.Files.Open("another"); err == nil {
			t.Errorf("%s: another file is there", arg)
		}
		isModule := !strings.HasSuffix(arg, ".gguf")
		if got := b.Assembly.Tokens.DModel; isModule != (got == 256) {
			t.Errorf("%s: the contract's d_model is %d", arg, got)
		}
		if got := b.Manifests["core-llm"] != nil; got != isModule {
			t.Errorf("%s: manifest %v", arg, got)
		}
	}
	if loose.IsLayout(filepath.Join(w.home, "store")) {
		t.Error("a store was made")
	}
	log, err := os.ReadFile(filepath.Join(w.home, "audit.jsonl"))
	if err != nil || strings.Count(string(log), "use-unsigned") != 3 {
		t.Errorf("%s, %v", log, err)
	}
}

// A core without 16-bit keys and values uses the first type it lists.
func TestRunnableKV(t *testing.T) {
	w := newWorld(t)
	w.modelIn("core")
	text, err := os.ReadFile("core/module.yaml")
	if err != nil {
		t.Fatal(err)
	}
	w.write("core/module.yaml", strings.Replace(string(text), "kv_dtype: [fp32, fp16, int8, fp8]", "kv_dtype: [int8, fp32]", 1))
	b, err := w.open(workspace.Options{}).Runnable(t.Context(), "core", workspace.RunOptions{})
	if err != nil || b.Assembly.KV != abi.Int8 {
		t.Errorf("%v, %v", b, err)
	}
}

// A request for signatures refuses a file without one.
func TestRunnableRefused(t *testing.T) {
	w := newWorld(t)
	w.modelIn("core")
	w.trust("strict.yaml", "strict: true\n", "**", 0)
	w.write("g.graph.yaml", coreGraph)
	run := workspace.RunOptions{}
	skip := workspace.RunOptions{}
	skip.Resolve.Skip = true
	for _, tc := range []struct {
		name string
		opt  workspace.Options
		run  workspace.RunOptions
		want diag.Code
	}{
		{"strict", workspace.Options{Trust: "strict.yaml"}, run, diag.Unsigned},
		{"strict, skipping", workspace.Options{Trust: "strict.yaml"}, skip, diag.Unsigned},
		{"a key", workspace.Options{Keys: []string{"stranger.pub"}}, run, diag.Unsigned},
		{"a target", workspace.Options{}, workspace.RunOptions{Target: "laptop"}, diag.NoTarget},
	} {
		args := []string{"core", "core/module.yaml", "core/core-llm.gguf"}
		if strings.HasPrefix(tc.name, "strict") {
			args = append(args, "g.graph.yaml")
			_, err := w.open(tc.opt).Function(t.Context(), filepath.Join(reference, "..", "vision-enc"), tc.run)
			w.wants(tc.name+": a function", err, string(tc.want))
		}
		for _, arg := range args {
			_, err := w.open(tc.opt).Runnable(t.Context(), arg, tc.run)
			if got := code(err); got != string(tc.want) {
				t.Errorf("%s: %s: %v", tc.name, arg, err)
			}
		}
	}
	if len(w.printed) > 0 {
		t.Errorf("messages %q", w.printed)
	}
	// The project's trust file may be the strict one.
	w.write("core/mm.yaml", "trust: ../strict.yaml\n")
	if _, err := w.open(workspace.Options{Dir: "core"}).Runnable(t.Context(), "core", run); code(err) != string(diag.Unsigned) {
		t.Errorf("a strict project: %v", err)
	}
}

// Files other than models are refused immediately, whatever their size.
func TestNotRunnable(t *testing.T) {
	w := newWorld(t)
	w.modelIn("core")
	w.write("big.gguf", "")
	w.write("big", "")
	w.write("text.gguf", "name: core-llm\n")
	w.write("cut.gguf", "GGUF\x03\x00\x00\x00")
	w.write("model/config.json", "{}")
	w.write("plain/notes.txt", "x")
	for _, name := range []string{"big.gguf", "big"} {
		if err := os.Truncate(name, 3<<30); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		arg  string
		want diag.Code
		text string
	}{
		{"big.gguf", diag.NotRunnable, "called a GGUF file"},
		{"big", diag.NotRunnable, "neither GGUF nor YAML"},
		{"text.gguf", diag.NotRunnable, "is text"},
		{"cut.gguf", diag.NotRunnable, ""},
		{"plain", diag.NotRunnable, "no OCI layout"},
		{".", diag.NotRunnable, "big.gguf"},
		{"model/config.json", diag.NotRunnable, "name the folder"},
		{"cor", diag.NoArtifact, "not in"},
		{"./cor", diag.NoArtifact, "did you mean ./core?"},
	} {
		var before, after runtime.MemStats
		start := time.Now()
		runtime.ReadMemStats(&before)
		_, err := w.open(workspace.Options{}).Runnable(context.Background(), tc.arg, workspace.RunOptions{})
		runtime.ReadMemStats(&after)
		if err == nil || code(err) != string(tc.want) || !strings.Contains(err.Error()+hint(err), tc.text) {
			t.Errorf("%s: %v, %q", tc.arg, err, hint(err))
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 2<<20 && strings.HasPrefix(tc.arg, "big") {
			t.Errorf("%s: %d bytes were allocated in %v", tc.arg, n, time.Since(start))
		}
	}
}

// An NPU context in a GGUF file's folder, with its record, is included; of
// several none is.
func TestRunnableContext(t *testing.T) {
	w := newWorld(t)
	w.modelIn("core")
	for _, step := range []struct {
		write []string
		want  string
	}{
		{nil, ""},
		{[]string{"core/core-llm.sm8750.bin"}, ""},
		{[]string{"core/other.sm8750.bin", "core/other.sm8750.json", "core/core-llm.sm8750.json"}, "core-llm.sm8750.bin core-llm.sm8750.json"},
		{[]string{"core/core-llm.bin", "core/core-llm.json"}, ""},
	} {
		for _, name := range step.write {
			w.write(name, "x")
		}
		b, err := w.open(workspace.Options{}).Runnable(t.Context(), "core/core-llm.gguf", workspace.RunOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(b.Assembly.Core.Files[string(abi.QNN)], " "); got != step.want {
			t.Errorf("with %v: %q, want %q", step.write, got, step.want)
		}
		for _, name := range b.Assembly.Core.Files[string(abi.QNN)] {
			if f, err := b.Files.Open(name); err != nil {
				t.Error(err)
			} else {
				f.Close()
			}
		}
	}
}
