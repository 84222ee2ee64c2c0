package track

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mm-abi.org/mm/lab/track/tracktest"
	"mm-abi.org/mm/train"
)

// folder returns the folder of a run with n steps.
func folder(t *testing.T, n int, end string) string {
	t.Helper()
	dir := t.TempDir()
	var b strings.Builder
	b.WriteString(`{"event":"started","name":"wall","step":0,"lineage":[{"digest":"sha256:aa11","name":"stories","license":"MIT"}]}` + "\n")
	for i := 1; i <= n; i++ {
		fmt.Fprintf(&b, `{"event":"step","step":%d,"tokens":%d,"loss":%g,"lr":0.001,"grad_norm":1,"tok_s":5,"seconds":%d}`+"\n", i, i*10, 6/float64(i), i)
	}
	fmt.Fprintf(&b, `{"event":"eval","step":%d,"loss":2,"tokens":10,"seconds":%d}`+"\n", n, n)
	if end != "" {
		fmt.Fprintf(&b, `{"event":"finished","step":%d,"reason":%q,"seconds":%d}`+"\n", n, end, n)
	}
	if err := os.WriteFile(filepath.Join(dir, train.MetricsFile), []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

func connect(t *testing.T, h http.Handler, env map[string]string) *Server {
	t.Helper()
	srv := httptest.NewServer(h)
	srv.Config.ErrorLog = nil
	t.Cleanup(srv.Close)
	s, err := NewServer(srv.URL, func(k string) string { return env[k] })
	if err != nil {
		t.Fatal(err)
	}
	s.pause = 1
	return s
}

func sync1(t *testing.T, s *Server, dir string) (*Result, error) {
	t.Helper()
	r, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return Sync(t.Context(), r, Options{Server: s, Version: "1"})
}

// once reports whether a server has each figure of a run once.
func once(t *testing.T, d *tracktest.Server, metrics int) {
	t.Helper()
	if len(d.Runs) != 1 {
		t.Fatalf("got %d runs, want 1", len(d.Runs))
	}
	run := d.Runs["r0"]
	seen := map[string]bool{}
	for _, m := range run.Metrics {
		key := fmt.Sprint(m.Key, m.Step)
		if seen[key] {
			t.Errorf("%s is there twice", key)
		}
		seen[key] = true
	}
	if len(seen) != metrics || len(run.Inputs) != 1 || run.Log == "" {
		t.Errorf("got %d metrics, inputs %q and a log of %d bytes, want %d, one and the log", len(seen), run.Inputs, len(run.Log), metrics)
	}
}

// A run is sent once: again, longer, and by a second process.
func TestSync(t *testing.T) {
	d := &tracktest.Server{}
	s := connect(t, d, nil)
	dir := folder(t, 450, "steps")
	got, err := sync1(t, s, dir)
	if err != nil || got.Metrics != 450*5+2 || got.Status != "FINISHED" {
		t.Fatalf("got %+v, %v", got, err)
	}
	once(t, d, 450*5+2)
	if again, err := sync1(t, s, dir); err != nil || again.Metrics != 0 || again.Before != 450*5+2 || again.Run != got.Run {
		t.Errorf("again: got %+v, %v", again, err)
	}
	f, err := os.OpenFile(filepath.Join(dir, train.MetricsFile), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"event":"started","step":450}` + "\n" + `{"event":"step","step":451,"loss":1,"seconds":451}` + "\n" + `{"event":"st`); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if more, err := sync1(t, s, dir); err != nil || more.Metrics != 5 || more.Status != "RUNNING" {
		t.Errorf("resumed: got %+v, %v", more, err)
	}
	once(t, d, 451*5+2)
}

// A sync whose process dies at any request, before or after the request took effect,
// leaves nothing twice.
func TestSyncKilled(t *testing.T) {
	for cut := 1; ; cut++ {
		dir, d := folder(t, 450, "steps"), &tracktest.Server{Cut: cut}
		ctx, stop := context.WithCancel(t.Context())
		s := connect(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if d.Requests+1 == cut {
				defer stop() // the process dies with the connection
			}
			d.ServeHTTP(w, r)
		}), nil)
		r, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Sync(ctx, r, Options{Server: s})
		stop()
		if err == nil {
			if cut < 8 {
				t.Errorf("got %d requests, want more", cut-1)
			}
			return
		}
		if _, err := sync1(t, s, dir); err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		once(t, d, 450*5+2)
	}
}

// A connection that is cut without a kill is tried again, and nothing is there twice.
func TestSyncRetries(t *testing.T) {
	for cut := 1; cut < 12; cut++ {
		d := &tracktest.Server{Cut: cut}
		got, err := sync1(t, connect(t, d, nil), folder(t, 450, "interrupted"))
		if err != nil || got.Status != "KILLED" {
			t.Errorf("cut at %d: got %+v, %v", cut, got, err)
			continue
		}
		once(t, d, 450*5+2)
	}
}

// A run that is resumed with another end keeps its parameters; the new values are tags.
func TestSyncResumedLonger(t *testing.T) {
	d := &tracktest.Server{}
	s, dir := connect(t, d, nil), folder(t, 5, "steps")
	for _, steps := range []string{"5", "9", "12"} {
		r, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		r.Params = []Param{{"model.dim", "16"}, {"stop.steps", steps}}
		if _, err := Sync(t.Context(), r, Options{Server: s}); err != nil {
			t.Errorf("%s steps: %v", steps, err)
		}
	}
	run := d.Runs["r0"]
	if run.Params["stop.steps"] != "5" || run.Tags[resumedTag+"stop.steps"] != "12" || run.Tags[resumedTag+"model.dim"] != "" {
		t.Errorf("got parameters %v and tags %v", run.Params, run.Tags)
	}
}

// Syncs of a folder at the same time send each figure once.
func TestSyncTogether(t *testing.T) {
	d := &tracktest.Server{}
	s, dir := connect(t, d, nil), folder(t, 450, "steps")
	errs := make(chan error)
	for range 4 {
		go func() {
			r, err := Open(dir)
			if err == nil {
				_, err = Sync(t.Context(), r, Options{Server: s})
			}
			errs <- err
		}()
	}
	for range 4 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	once(t, d, 450*5+2)
	if _, err := os.Stat(filepath.Join(dir, lockFile)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("lock: %v", err)
	}
}

// A build is registered once, and an alias moves.
func TestRegister(t *testing.T) {
	d := &tracktest.Server{}
	s := connect(t, d, nil)
	const source = "oci://host/team/p@sha256:aa"
	for i, before := range []bool{false, true} {
		got, err := s.Register(t.Context(), "p", source, "", "prod")
		if err != nil || got.Version != "1" || got.Before != before {
			t.Errorf("%d: got %+v, %v", i, got, err)
		}
	}
	if len(d.Versions) != 1 || d.Aliases["prod"] != "1" {
		t.Errorf("got %v, %v", d.Versions, d.Aliases)
	}
}

// Hostile servers end a sync with an error, and credentials stay with the server.
func TestHostile(t *testing.T) {
	leaked := ""
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { leaked = r.Header.Get("Authorization") }))
	defer other.Close()
	for name, h := range map[string]http.HandlerFunc{
		"redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		},
		"not JSON":  func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") },
		"too large": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, maxAnswer+1)) },
		"busy":      func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) },
	} {
		s := connect(t, h, map[string]string{"MLFLOW_TRACKING_TOKEN": "secret"})
		if _, err := sync1(t, s, folder(t, 1, "")); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got %v, want an error", name, err)
		}
	}
	if leaked != "" {
		t.Errorf("got %q at another server", leaked)
	}
	exact := connect(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(append([]byte("{}"), []byte(strings.Repeat(" ", maxAnswer-2))...))
	}), nil)
	if err := exact.call(t.Context(), http.MethodGet, "x", nil, &struct{}{}); err != nil {
		t.Errorf("answer of the limit: %v", err)
	}
}

// Logs and identities are bounded, and a damaged identity is not replaced.
func TestOpen(t *testing.T) {
	for n, ok := range map[int]bool{maxLine: true, maxLine + 1: false} {
		dir := t.TempDir()
		line := `{"event":"x","pad":"` + strings.Repeat("a", n-len(`{"event":"x","pad":""}`)) + `"}`
		if err := os.WriteFile(filepath.Join(dir, train.MetricsFile), []byte(line+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(dir); (err == nil) != ok {
			t.Errorf("line of %d bytes: %v", n, err)
		}
	}
	for _, text := range []string{"{}", `{"id":"zz","begin_ms":1}`, strings.Repeat(" ", maxState+1)} {
		dir := folder(t, 1, "")
		if err := os.WriteFile(filepath.Join(dir, StateFile), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(dir); err == nil {
			t.Errorf("identity %.40q: got no error", text)
		}
	}
	out := map[string]string{}
	flatten("", map[string]any{"a": map[string]any{"b": []any{1.5, nil}}, "long": strings.Repeat("x", maxParam), "longer": strings.Repeat("x", maxParam+1), "odd;key": true}, out)
	if out["a.b.0"] != "1.5" || len(out["long"]) != maxParam || !strings.HasPrefix(out["longer"], "sha256:") || out["odd_key"] != "true" {
		t.Errorf("got %.200v", out)
	}
	if _, err := Open(t.TempDir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("empty folder: %v", err)
	}
}

func FuzzLog(f *testing.F) {
	f.Add([]byte(`{"event":"step","step":1,"loss":2}` + "\n" + `{"event":"finished","reason":"steps"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := &Run{}
		if err := r.log(strings.NewReader(string(data))); err != nil {
			return
		}
		last := map[string]int64{}
		for _, m := range r.Metrics {
			if at, ok := last[m.Key]; ok && m.Step <= at {
				t.Errorf("%s: step %d after %d", m.Key, m.Step, at)
			}
			last[m.Key] = m.Step
		}
	})
}

// Requests hold as much as the server takes: one more is a second request. A log that is
// too large is not sent as an artifact.
func TestBatches(t *testing.T) {
	d := &tracktest.Server{Runs: map[string]*tracktest.Run{"r0": {Params: map[string]string{}}}}
	s := connect(t, d, nil)
	for n, want := range map[int]int{maxParams: 1, maxParams + 1: 2} {
		list, before := make([]Param, n), d.Requests
		for i := range list {
			list[i] = Param{fmt.Sprint("p", i), "v"}
		}
		remote := &remoteRun{}
		remote.Info.ID = "r0"
		if err := s.params(t.Context(), remote, list); err != nil || d.Requests-before != want {
			t.Errorf("%d parameters: got %d requests, %v, want %d", n, d.Requests-before, err, want)
		}
	}
	for n, ok := range map[int]bool{maxBatch: true, maxBatch + 1: false} {
		if err := s.metrics(t.Context(), "r0", make([]Metric, n)); (err == nil) != ok {
			t.Errorf("%d metrics: got %v, want them taken: %v", n, err, ok)
		}
	}
	for n, want := range map[int64]int{maxArtifact: 1, maxArtifact + 1: 0} {
		dir, before := folder(t, 1, ""), d.Requests
		if err := os.Truncate(filepath.Join(dir, train.MetricsFile), n); err != nil {
			t.Fatal(err)
		}
		remote := &remoteRun{}
		remote.Info.Artifact = "mlflow-artifacts:/1/r0/artifacts"
		if err := s.artifacts(t.Context(), remote, &Run{Dir: dir}); err != nil || d.Requests-before != want {
			t.Errorf("log of %d bytes: got %d requests, %v, want %d", n, d.Requests-before, err, want)
		}
	}
}
