package study

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/internal/diag"
	"mm-abi.org/mm/internal/fsx"
	"mm-abi.org/mm/lab/chain"
	"mm-abi.org/mm/registry/sign"
)

// begun runs the killed study's text in dir, changed by edit, and returns its options to
// resume.
func begun(t *testing.T, dir, study string) (Study, Options, Answer) {
	t.Helper()
	s, text := write(t, dir, study)
	key := newKey(t)
	opt := Options{Dir: filepath.Join(dir, "run"), Key: key, Verifier: key.Public(), Text: text}
	a, err := Run(context.Background(), s, opt)
	if err != nil {
		t.Fatal(err)
	}
	opt.Resume = true
	return s, opt, a
}

// smallText is a study without a scheduler and with one seed.
const smallText = `
name: tiny
recipe: recipe.yaml
tokens: 256
seeds: [1]
held_out: {choose: 0.15, judge: 0.15, documents: 12}
mutations: [{kind: rate, values: [1.0e-2]}]
`

// stopped runs a study that is canceled after a number of rows.
func stopped(t *testing.T, dir, study string, rows int) (Study, Options) {
	t.Helper()
	s, text := write(t, dir, study)
	key := newKey(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	opt := Options{Dir: filepath.Join(dir, "run"), Key: key, Verifier: key.Public(), Text: text, Each: func(r chain.Row) {
		if r.Seq == rows {
			cancel()
		}
	}}
	if _, err := Run(ctx, s, opt); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	opt.Resume, opt.Each = true, nil
	return s, opt
}

// A study whose values, recipe or text changed is refused by name; a moved folder, changed
// comments and threads are not.
func TestEdited(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, opt := stopped(t, dir, smallText, 2)
	for name, c := range map[string]struct {
		edit func(s *Study)
		at   string
		want string
	}{
		"seeds":  {func(s *Study) { s.Seeds = []uint64{2} }, "small.study.yaml:5:9", "/seeds/0: got 2, the run has 1"},
		"values": {func(s *Study) { s.Mutations = nil }, "small.study.yaml:7:12", "/mutations: got nothing"},
		"recipe": {func(s *Study) { s.Base.BatchSize = 3 }, "recipe.yaml:5:13", "/batch_size: got 3, the run has 4"},
	} {
		edited := s
		c.edit(&edited)
		_, err := Run(context.Background(), edited, opt)
		if err == nil || !strings.Contains(err.Error(), string(diag.StudyEdited)) || !strings.Contains(err.Error(), c.at) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s at %s", name, err, c.want, c.at)
		}
	}
	set := func(n float64) any { return map[string]any{"set": map[string]any{"/rate~": n}} }
	if d := differences("", set(1), set(2)); len(d) != 1 || d[0].path != "/set/~1rate~0" {
		t.Errorf("a key that is a pointer: got %v", d)
	}
	if err := os.WriteFile(filepath.Join(opt.Dir, judgeFile), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	source := filepath.Join(dir, "stories.txt")
	if err := os.WriteFile(source, []byte(stories(200)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Run(context.Background(), s, opt); err == nil || !strings.Contains(err.Error(), string(diag.StudyText)) {
		t.Errorf("other text: got %v", err)
	}
	if err := os.WriteFile(source, []byte(stories(400)), 0o600); err != nil {
		t.Fatal(err)
	}
	moved := filepath.Join(dir, "moved")
	if err := os.Rename(opt.Dir, moved); err != nil {
		t.Fatal(err)
	}
	opt.Dir, s.Threads = moved, 1
	if _, err := Run(context.Background(), s, opt); err != nil {
		t.Errorf("damaged parts are written again in another folder: %v", err)
	}
}

// One process at a time writes; a changed row is tampering; another key does not continue.
func TestChain(t *testing.T) {
	t.Parallel()
	s, opt := stopped(t, t.TempDir(), smallText, 2)
	held, err := chain.Open(context.Background(), filepath.Join(opt.Dir, ChainDir), opt.Key, opt.Verifier, fsx.Options{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Run(context.Background(), s, opt); !errors.Is(err, fsx.ErrLocked) {
		t.Errorf("two processes: got %v", err)
	}
	if v, err := Open(opt.Dir, opt.Verifier); err != nil || v.Status().State != "running" {
		t.Errorf("state of a run in progress: %v", err)
	}
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	other := newKey(t)
	none := opt
	none.Dir = t.TempDir()
	if _, err := Run(context.Background(), s, none); !errors.Is(err, chain.ErrNone) {
		t.Errorf("no run to resume: got %v", err)
	}
	with := opt
	with.Key, with.Verifier = other, other.Public()
	if _, err := Run(context.Background(), s, with); !errors.Is(err, chain.ErrKey) {
		t.Errorf("another key: got %v", err)
	}
	path := filepath.Join(opt.Dir, ChainDir, chain.File)
	rows, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	changed := bytes.Replace(rows, []byte(`"seconds":`), []byte(`"seconds":1`), 1)
	if err := os.WriteFile(path, changed, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Run(context.Background(), s, opt); !errors.Is(err, chain.ErrRows) {
		t.Errorf("a changed row: got %v", err)
	}
	if _, err := Open(opt.Dir, opt.Verifier); !errors.Is(err, chain.ErrRows) {
		t.Errorf("a changed row: got %v", err)
	}
}

// A full disk is an error; the run continues with every row that it had.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	s, opt := stopped(t, t.TempDir(), smallText, 2)
	before := openView(t, opt.Dir, opt.Key.(*sign.PrivateKey)).Report.Rows
	full := opt
	full.Files.Hook = func(op *fsx.Op, do func() error) error {
		if op.Kind == fsx.OpWrite {
			return errFull
		}
		return do()
	}
	if _, err := Run(context.Background(), s, full); !errors.Is(err, errFull) {
		t.Fatalf("got %v", err)
	}
	if after := openView(t, opt.Dir, opt.Key.(*sign.PrivateKey)).Report.Rows; after < before {
		t.Errorf("got %d rows, had %d", after, before)
	}
	got, err := Run(context.Background(), s, opt)
	if err != nil {
		t.Fatal(err)
	}
	_, _, want := begun(t, t.TempDir(), smallText)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

var errFull = errors.New("no space left on device")

// The result of a trial depends on its spec only: not on the folder, the threads, a
// checkpoint of a lower or a higher rung, or a damaged one.
func TestExecute(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, _ := write(t, dir, killedText)
	specs, parts, err := Trials(s, dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(specs) != len(s.Arms)*len(s.Seeds) {
		t.Errorf("got %d trials", len(specs))
	}
	early, err := s.spec(parts, s.Arms[0], 1, 256, chooseFile)
	if err != nil {
		t.Fatal(err)
	}
	execute := func(spec []byte, dir string, threads int) string {
		t.Helper()
		out, err := Local{Dir: dir, Threads: threads}.Run(context.Background(), spec)
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	fresh := t.TempDir()
	if _, err := s.prepare(fresh, fsx.Options{}); err != nil {
		t.Fatal(err)
	}
	first := execute(early, dir, 2)
	end := execute(specs[0], dir, 2) // continues
	if got := execute(specs[0], fresh, 1); got != end {
		t.Errorf("another folder: got %s, want %s", got, end)
	}
	if got := execute(early, dir, 1); got != first { // its checkpoint is of a higher rung
		t.Errorf("after the higher rung: got %s, want %s", got, first)
	}
	var spec Spec
	if err := json.Unmarshal(specs[0], &spec); err != nil {
		t.Fatal(err)
	}
	damaged := filepath.Join(dir, spec.Folder, "last.safetensors")
	if err := os.Truncate(damaged, 1000); err != nil {
		t.Fatal(err)
	}
	if got := execute(specs[0], dir, 1); got != end {
		t.Errorf("after damage: got %s, want %s", got, end)
	}
	if err := os.WriteFile(filepath.Join(dir, chooseFile), []byte("{\"text\":\"x\"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Execute(context.Background(), specs[0], dir); err == nil || !strings.Contains(err.Error(), "digest mismatch") {
		t.Errorf("another part: got %v", err)
	}
	for _, bad := range []string{"{}", strings.Replace(string(specs[0]), `"trials/`, `"../trials/`, 1), strings.Replace(string(specs[0]), `"until":`, `"until":-`, 1)} {
		if _, err := Execute(context.Background(), []byte(bad), dir); err == nil {
			t.Errorf("accepted %.60s", bad)
		}
	}
}

// A budget ends a study before all trials, which the answer reports.
func TestBudget(t *testing.T) {
	t.Parallel()
	_, _, a := begun(t, t.TempDir(), smallText+"budget: {tokens: 300}\n")
	if a.Exhausted == "" || a.Tokens != 256 || a.Winner != nil || a.Verdict != Inconclusive {
		t.Errorf("got %+v", a)
	}
	if !strings.Contains(strings.Join(a.Words, "\n"), "The budget ended before all trials (tokens: 256 of 300 spent") {
		t.Errorf("got %q", a.Words)
	}
}

// A meter for tests: each reading adds 3 J.
type meter struct{ n uint64 }

func (m *meter) Read() (Energy, error) {
	m.n += 3e6
	return Energy{"p": {m.n % 1e7, 1e7}}, nil
}

func TestEnergy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, text := write(t, dir, smallText+"budget: {joules: 3}\n")
	key := newKey(t)
	opt := Options{Dir: filepath.Join(dir, "run"), Key: key, Verifier: key.Public(), Text: text, Energy: Packages{t.TempDir()}}
	if _, err := Run(context.Background(), s, opt); err == nil || !strings.Contains(err.Error(), "small.study.yaml:8:18: error "+string(diag.StudyEnergy)) {
		t.Errorf("without counters: got %v", err)
	}
	opt.Energy = &meter{}
	elsewhere := opt
	elsewhere.Runner = Local{Dir: opt.Dir, Threads: 1}
	if _, err := Run(context.Background(), s, elsewhere); err == nil || !strings.Contains(err.Error(), string(diag.StudyEnergy)) {
		t.Errorf("with workers: got %v", err)
	}
	a, err := Run(context.Background(), s, opt)
	if err != nil || !strings.HasPrefix(a.Exhausted, "energy") {
		t.Errorf("got %v, %v", a.Exhausted, err)
	}
	zone := filepath.Join(t.TempDir(), "intel-rapl:0")
	if err := os.MkdirAll(zone, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"energy_uj": "900\n", "max_energy_range_uj": "1000\n"} {
		if err := os.WriteFile(filepath.Join(zone, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := Packages{filepath.Dir(zone)}.Read()
	if diff := cmp.Diff(Energy{"intel-rapl:0": {900, 1000}}, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
	if j := (Energy{"p": {100, 1000}}).since(got); j != 0 && len(got) == 0 {
		t.Errorf("got %v", j)
	}
	if j := (Energy{"intel-rapl:0": {100, 1000}}).since(got); j != 200e-6 {
		t.Errorf("a wrapped counter: got %v", j)
	}
}

// An arm that diverges is stopped, with a reason, and does not end the study.
func TestDivergence(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, opt, a := begun(t, dir, strings.Replace(smallText, "1.0e-2", "9", 1)+
		"hypotheses:\n- {name: burst, claim: c, arm: rate=9, metric: diverged}\n- {name: better, claim: c, arm: rate=9, expect: {below: 0}, refute: {above: 0}}\n")
	if a.Arms[1].Diverged == "" || a.Claims[0].Verdict != Supported || a.Claims[1].Verdict != Refuted {
		t.Errorf("got %+v", a)
	}
	v, err := Open(opt.Dir, opt.Verifier)
	if err != nil {
		t.Fatal(err)
	}
	e, err := v.Explain("burst")
	if err != nil || len(e.Rows) != 1 || e.Rows[0].Diverged == "" {
		t.Errorf("got %+v, %v", e, err)
	}
	if _, err := v.Explain("brust"); !errors.As(err, &UnknownClaim{}) {
		t.Errorf("got %v", err)
	}
}

// The page answers requests for this machine only.
func TestHandler(t *testing.T) {
	t.Parallel()
	h := Handler(func() (Status, error) { return Status{Study: "s"}, nil })
	for _, c := range []struct {
		host, path string
		want       int
	}{{"127.0.0.1:8080", "/", 200}, {"localhost", "/page.js", 200}, {"[::1]:80", "/status.json", 200}, {"evil.example", "/status.json", 403},
		{"localhost.evil.example", "/", 403}, {"", "/", 403}, {"127.0.0.1", "/parts", 404}} {
		r := httptest.NewRequest(http.MethodGet, c.path, nil)
		r.Host = c.host
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != c.want {
			t.Errorf("%s%s: got %d, want %d", c.host, c.path, w.Code, c.want)
		}
	}
}
