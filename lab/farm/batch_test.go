package farm_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/lab/farm"
)

// folder writes files and returns their folder.
func folder(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		at := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func batch(t testing.TB, dir, text string) (farm.Batch, error) {
	t.Helper()
	return farm.ParseBatch(filepath.Join(dir, "jobs.yaml"), []byte("version: 1\nname: night\n"+text))
}

// dataset is a manifest of n sources.
func dataset(n int) string {
	s := "version: 1\nname: m\nsources:\n"
	for i := range n {
		s += fmt.Sprintf("  - {id: s%d, path: s%d.jsonl, sha256: %s, license: MIT}\n", i, i, strings.Repeat("a", 64))
	}
	return s
}

// A file of jobs becomes steps: shards, and one that joins them.
func TestBatchSteps(t *testing.T) {
	dir := folder(t, map[string]string{"m.gguf": "m", "tasks/a.yaml": "a", "tasks/b.jsonl": "b", "d/d.data.yaml": dataset(3), "d/s0.jsonl": "", "d/s1.jsonl": "", "d/s2.jsonl": "",
		"x.graph.yaml": "core: {llm: {ref: c@^1.0}}\nexports: {cpu: {gguf: {quant: int8}}, phone: {gguf: {quant: int4}}}\n", "c/module.yaml": "x"})
	for _, c := range []struct{ text, want string }{
		{"needs: [ram=1G]\neval: {model: m.gguf, tasks: [tasks], shards: 2, options: [--limit, '4']}\n",
			"shard-1 [] [eval suite m.gguf tasks --limit 4 --shard 1/2 --out answers/1.jsonl] [m.gguf tasks/a.yaml tasks/b.jsonl] [answers/1.jsonl] [ram=1G CPU]\n" +
				"shard-2 [] [eval suite m.gguf tasks --limit 4 --shard 2/2 --out answers/2.jsonl] [m.gguf tasks/a.yaml tasks/b.jsonl] [answers/2.jsonl] [ram=1G CPU]\n" +
				"results [shard-1 shard-2] [eval suite m.gguf tasks --limit 4 --answers answers/1.jsonl --answers answers/2.jsonl --out out] [m.gguf tasks/a.yaml tasks/b.jsonl] [out/] [ram=1G CPU]\n"},
		{"data: {manifest: d/d.data.yaml, parts: 2}\n",
			"part-1 [] [data build d/d.data.yaml --part 1/2 --out parts/1] [d/d.data.yaml d/s0.jsonl] [parts/1] []\n" +
				"part-2 [] [data build d/d.data.yaml --part 2/2 --out parts/2] [d/d.data.yaml d/s1.jsonl d/s2.jsonl] [parts/2] []\n" +
				"results [part-1 part-2] [data build d/d.data.yaml --parts parts/1 --parts parts/2 --out out] [d/d.data.yaml] [out/] []\n"},
		{"files: [c]\nbuild: {graph: x.graph.yaml}\n",
			"target-cpu [] [assemble x.graph.yaml --target cpu] [c/module.yaml x.graph.yaml] [home/store/blobs/ home/cache/] [CPU]\n" +
				"target-phone [] [assemble x.graph.yaml --target phone] [c/module.yaml x.graph.yaml] [home/store/blobs/ home/cache/] [CPU]\n" +
				"results [target-cpu target-phone] [assemble x.graph.yaml --out out] [c/module.yaml x.graph.yaml] [out/] [CPU]\n"},
		{"commands: [{name: a, run: [version], outputs: [v.txt]}, {name: b, run: [validate, v.txt], after: [a], files: [m.gguf], needs: [avx2]}]\n",
			"a [] [version] [] [v.txt] []\nb [a] [validate v.txt] [m.gguf] [] [avx2]\n"},
	} {
		b, err := batch(t, dir, c.text)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		got := ""
		for _, s := range b.Steps {
			needs := slices.Clone(s.Job.Needs)
			for i, n := range needs {
				if strings.HasPrefix(n, "cpu=") {
					needs[i] = "CPU"
				}
			}
			got += fmt.Sprintln(s.Name, s.After, s.Job.Args, s.Files, s.Job.Outputs, needs)
		}
		if got != c.want {
			t.Errorf("%s: got\n%swant\n%s", c.text, got, c.want)
		}
	}
}

// Faults of a file of jobs have a code and a place.
func TestBatchFaults(t *testing.T) {
	dir := folder(t, map[string]string{"a": "a", "out/a": "a", "answers/1.jsonl": "x", "d.data.yaml": dataset(1), "bad.data.yaml": "version: 2\n", "bad.graph.yaml": "core: 1\n"})
	if err := os.Symlink("a", filepath.Join(dir, "link")); err != nil {
		t.Skip(err)
	}
	for text, want := range map[string]diag.Code{
		"": diag.BatchWork,
		"eval: {model: a, tasks: [a], shards: 1}\ndata: {manifest: a, parts: 1}\n": diag.BatchWork,
		"eval: {model: b, tasks: [a], shards: 1}\n":                                diag.BatchFile,
		"eval: {model: link, tasks: [a], shards: 1}\n":                             diag.BatchFile,
		"eval: {model: ../a, tasks: [a], shards: 1}\n":                             diag.BatchFile,
		"eval: {model: a, tasks: [out], shards: 1}\n":                              diag.BatchFile,
		"eval: {model: a, tasks: [answers], shards: 1}\n":                          diag.BatchFile,
		"eval: {model: a, tasks: [a], shards: 1, options: ['--out=/tmp']}\n":       diag.BatchStep,
		"eval: {model: a, tasks: [a], shards: 1, options: ['--out=C:\\x']}\n":      diag.BatchStep,
		"eval: {model: a, tasks: [a], shards: 0}\n":                                diag.OutOfRange,
		"data: {manifest: d.data.yaml, parts: 1}\n":                                diag.BatchFile, // without its source
		"data: {manifest: bad.data.yaml, parts: 1}\n":                              diag.NotAllowed,
		"build: {graph: bad.graph.yaml}\n":                                         diag.WrongType,
		"commands: [{name: a, run: [serve]}]\n":                                    diag.BatchStep,
		"commands: [{name: a, run: [version], after: [b]}]\n":                      diag.BatchStep,
		"commands: [{name: a, run: [version]}, {name: a, run: [version, x]}]\n":    diag.BatchStep,
		"commands: [{name: a, run: [version], outputs: ['../b']}]\n":               diag.BatchStep,
		"x: 1\n": diag.UnknownKey,
	} {
		_, err := batch(t, dir, text)
		list, _ := diag.From(err)
		if !slices.ContainsFunc(list, func(d diag.Diagnostic) bool { return d.Code == want && d.Pos.File != "" }) {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
	if _, err := farm.ReadBatch(filepath.Join(dir, "absent")); err == nil {
		t.Error("a missing file has no error")
	}
}

// joiner executes jobs by their arguments: an output holds the arguments and the inputs.
func joiner(q *farm.Queue, runs *atomic.Int64, broken *atomic.Bool) executor {
	return func(ctx context.Context, _ string, j farm.Job) (farm.Outcome, error) {
		runs.Add(1)
		if broken.Load() && j.Args[1] == "second" {
			return farm.Outcome{}, errors.New("broken on purpose")
		}
		text := fmt.Sprint(j.Args)
		for _, name := range sorted(j.Inputs) {
			data, err := q.GetBytes(ctx, j.Inputs[name], 1<<20)
			if err != nil {
				return farm.Outcome{}, err
			}
			text += " " + name + "=" + string(data)
		}
		out := farm.Outcome{Outputs: map[string]string{}}
		for _, name := range j.Outputs {
			if strings.HasSuffix(name, "/") {
				name += "f"
			}
			sum, err := q.PutBytes(ctx, []byte(text))
			if err != nil {
				return out, err
			}
			out.Outputs[name] = sum
		}
		return out, nil
	}
}

func sorted(m map[string]string) (keys []string) {
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// A batch runs in order, its results appear at once, and a second run executes nothing; steps
// that failed run again on request.
func TestRunBatch(t *testing.T) {
	t.Parallel()
	b := start(t, t.TempDir(), "127.0.0.1:0")
	t.Cleanup(func() { b.Close() })
	q := open(t, farm.Options{Servers: b.URL()})
	var runs atomic.Int64
	var broken atomic.Bool
	broken.Store(true)
	work(t, q, "w", joiner(q, &runs, &broken))
	dir := folder(t, map[string]string{"in": "IN"})
	plan, err := batch(t, dir, "attempts: 1\ncommands:\n- {name: a, run: [version, first], files: [in], outputs: [a.txt]}\n- {name: b, run: [version, second], after: [a], outputs: [more/]}\n- {name: c, run: [version, third], after: [a, b]}\n")
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "x", "out")
	steps := 0
	opt := farm.BatchOptions{Out: out, Tell: func(string, farm.Result) { steps++ }}
	if _, err := q.RunBatch(t.Context(), plan, opt); err == nil || !strings.Contains(err.Error(), "step b:") {
		t.Fatalf("got %v", err)
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("results of a failed batch")
	}
	broken.Store(false)
	if _, err := q.RunBatch(t.Context(), plan, opt); err == nil {
		t.Error("a failed step ran again without a request")
	}
	opt.Again = true
	done, err := q.RunBatch(t.Context(), plan, opt)
	if err != nil || len(done) != 3 {
		t.Fatalf("got %v, %v", done, err)
	}
	want := map[string]string{"a/a.txt": "[version first] in=IN", "b/more/f": "[version second] a.txt=[version first] in=IN"}
	for name, text := range want {
		if got, err := os.ReadFile(filepath.Join(out, filepath.FromSlash(name))); err != nil || string(got) != text {
			t.Errorf("%s: got %q, %v, want %q", name, got, err, text)
		}
	}
	n := runs.Load()
	if n != 4 { // b twice
		t.Errorf("got %d executions, want 4", n)
	}
	if _, err := q.RunBatch(t.Context(), plan, opt); err != nil || runs.Load() != n {
		t.Errorf("a second run: %v, %d executions", err, runs.Load()-n)
	}
	for name, text := range map[string]string{"other": "x", filepath.FromSlash("a/a.txt"): "changed"} {
		at := filepath.Join(out, name)
		before, err := os.ReadFile(at)
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := q.RunBatch(t.Context(), plan, opt); err == nil || !strings.Contains(err.Error(), "the folder has") {
			t.Errorf("%s: got %v", name, err)
		}
		if err != nil {
			os.Remove(at)
		} else if err := os.WriteFile(at, before, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(filepath.Join(out, "a", "a.txt")); err != nil {
		t.Fatal(err)
	}
	if _, err := q.RunBatch(t.Context(), plan, opt); err == nil || !strings.Contains(err.Error(), "the folder has 1 files, the result 2") {
		t.Errorf("a missing file: got %v", err)
	}
}

// A hostile file of jobs is an error or has steps that workers accept.
func FuzzBatch(f *testing.F) {
	dir := folder(f, map[string]string{"a": "a", "d.data.yaml": dataset(1), "s0.jsonl": ""})
	for _, s := range []string{"eval: {model: a, tasks: [a], shards: 3}\n", "data: {manifest: d.data.yaml, parts: 2}\n", "commands: [{name: a, run: [version], after: []}]\n", "build: {graph: a}\n", "files: [.]\neval: {}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		b, err := batch(t, dir, text)
		if err != nil {
			return
		}
		for _, s := range b.Steps {
			if _, _, err := s.Job.Encode(); err != nil {
				t.Errorf("step %s: %v", s.Name, err)
			}
		}
	})
}
