package suite

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// shards asks the questions of tasks in n shards and returns the files of the answers.
func shards(t *testing.T, c Cache, tasks []*Task, m Model, n int) (files []string) {
	t.Helper()
	for i := range n {
		var b bytes.Buffer
		for _, task := range tasks {
			if err := c.Part(t.Context(), task, m, Shard{i, n}, RunOptions{Parallel: 2}, &b); err != nil {
				t.Fatal(err)
			}
		}
		file := filepath.Join(t.TempDir(), fmt.Sprint(i))
		if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	return files
}

// resultFiles returns the files of results by name.
func resultFiles(t *testing.T, all []*Outcome) map[string]string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "out")
	if err := NewResults(Source{Model: "m"}, all, nil).Write(dir, all); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		out[e.Name()] = string(data)
	}
	return out
}

// The results of shards are those of one run, byte for byte.
func TestShards(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped in short mode: two hundred shards")
	}
	tasks := load(t, Options{Seed: DefaultSeed}, "testdata/tasks")
	m := parrot{text: "#### 5 \xff\x00", likes: "white"}
	var all []*Outcome
	for _, task := range tasks {
		all = append(all, ask(t, task, m))
	}
	want := resultFiles(t, all)
	c := Cache{Model: "m"}
	for _, n := range []int{1, 3, 200} {
		answers, err := ReadAnswers(shards(t, c, tasks, m, n))
		if err != nil {
			t.Fatal(err)
		}
		var joined []*Outcome
		for _, task := range tasks {
			o, err := c.Join(task, answers)
			if err != nil {
				t.Fatal(err)
			}
			joined = append(joined, o)
		}
		if err := answers.Rest(); err != nil {
			t.Error(err)
		}
		got := resultFiles(t, joined)
		for name := range want {
			if got[name] != want[name] {
				t.Errorf("%d shards: %s differs", n, name)
			}
		}
	}
}

// Answers of another model, another option, a missing shard, twice with other text, or of a
// question that does not exist are refused.
func TestAnswersRefused(t *testing.T) {
	tasks := load(t, Options{Seed: DefaultSeed}, "testdata/tasks/sums.yaml", "testdata/tasks/colors.yaml")
	c := Cache{Model: "m"}
	files := shards(t, c, tasks, parrot{text: "5"}, 2)
	join := func(c Cache, tasks []*Task, files ...string) error {
		answers, err := ReadAnswers(files)
		for _, task := range tasks {
			if err == nil {
				_, err = c.Join(task, answers)
			}
		}
		if err == nil {
			err = answers.Rest()
		}
		return err
	}
	key := c.key(tasks[0], tasks[0].digest)
	extra := func(a answer) string {
		data, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "extra")
		if err := os.WriteFile(file, append(data, '\n'), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	raw := func(s string) string {
		file := filepath.Join(t.TempDir(), "raw")
		if err := os.WriteFile(file, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	if err := join(c, tasks, files[0], files[1], files[0]); err != nil {
		t.Errorf("a shard twice: %v", err)
	}
	for _, f := range []struct {
		err  error
		want string
	}{
		{join(Cache{Model: "n"}, tasks, files...), "task mm_sums: no answer to question 0 of 30"},
		{join(c, load(t, Options{Seed: 1}, "testdata/tasks/sums.yaml"), files...), "no answer to question 0"},
		{join(c, tasks, files[0]), "task mm_sums: no answer to question 1 of 30"},
		{join(c, tasks[:1], files...), `answers to task "mm_colors": of another model`},
		{join(c, tasks, append(files, extra(answer{Task: "mm_sums", Key: key, Question: 30}))...), "got answers to 31 questions, want 30"},
		{join(c, tasks, append(files, extra(answer{Task: "mm_sums", Key: key, Question: 3}))...), "question 3 of mm_sums has another answer before"},
		{join(c, tasks[:1], extra(answer{Task: "mm_sums", Key: key, Scores: []Scored{{}}})), "got 1 scores, want 0"},
		{join(c, nil, raw("{}\n")), "line 1: want one answer"},
		{join(c, nil, raw(`{"task":"t","key":"k","question":-1}`)), "line 1: want one answer"},
		{join(c, nil, raw(`{"task":"t","key":"k","x":1}`)), "unknown field"},
		{join(c, nil, raw(`{"task":"t","key":"k"} {}`)), "line 1: want one answer"},
		{join(c, nil, raw(strings.Repeat(" ", maxAnswer+1))), "line 1: more than"},
	} {
		if f.err == nil || !strings.Contains(f.err.Error(), f.want) {
			t.Errorf("got %v, want %q", f.err, f.want)
		}
	}
	for s, ok := range map[string]bool{"1/1": true, fmt.Sprintf("1/%d", MaxShards): true, fmt.Sprintf("1/%d", MaxShards+1): false, "0/2": false, "3/2": false, "1": false, "x/2": false} {
		if _, err := ParseShard(s); (err == nil) != ok {
			t.Errorf("shard %q: %v", s, err)
		}
	}
	for n, want := range map[int64]string{maxAnswers: "line 1: more than", maxAnswers + 1: "too large"} {
		file := raw("")
		if err := os.Truncate(file, n); err != nil {
			t.Fatal(err)
		}
		if err := join(c, nil, file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d bytes: got %v, want %q", n, err, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Part(ctx, tasks[0], parrot{}, Shard{0, 1}, RunOptions{}, &bytes.Buffer{}); err == nil {
		t.Error("a canceled shard has no error")
	}
}

// A hostile file of answers is an error or has answers with keys.
func FuzzAnswers(f *testing.F) {
	f.Add([]byte(`{"task":"t","key":"k","question":0,"scores":[{"LogProb":-1,"Greedy":true,"Cut":false}]}` + "\n"))
	f.Add([]byte(`{"task":"t","key":"k","question":1,"text":"YQ==","calls":[{"name":"a","arguments":{},"answer":""}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		all := Answers{}
		if err := all.add(data); err != nil {
			return
		}
		for key, of := range all {
			if key == "" || len(of) == 0 {
				t.Error("answers without a key or a question")
			}
		}
	})
}
