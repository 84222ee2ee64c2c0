package train

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/train/dataset"
	"mm-abi.org/mm/train/llm"
	"mm-abi.org/mm/train/optim"
)

// stories returns n template sentences, which a small model learns in a few
// steps.
func stories(n int) string {
	names := []string{"Tom", "Lily", "Anna", "Ben"}
	animals := []string{"dog", "cat", "bird", "fish"}
	places := []string{"park", "garden", "house"}
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%s saw a %s in the %s. The %s was happy and %s went home.<|endoftext|>\n",
			names[i%4], animals[i/4%4], places[i/3%3], animals[i/4%4], names[i%4])
	}
	return b.String()
}

// smallConfig is a run of a few seconds over a file of stories in dir.
func smallConfig(t testing.TB, dir string) Config {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "stories.txt"), []byte(stories(200)), 0o600); err != nil {
		t.Fatal(err)
	}
	return Config{
		Seed:      5,
		Model:     llm.Config{Vocab: 300, Dim: 32, Layers: 3, Heads: 2, Context: 24},
		Data:      Data{Files: []string{"stories.txt"}, Held: 0.1},
		Tokenizer: Tokenizer{Control: []string{"<|endoftext|>"}, EOS: "<|endoftext|>"},
		BatchSize: 3, Accumulate: 2,
		Schedule: optim.Schedule{Warmup: 5},
		Stop:     Stop{Steps: 30}, LogEvery: 4, Eval: Eval{Every: 10, Windows: 20}, SaveEvery: 7,
	}
}

func prepare(t testing.TB, cfg Config, dir string) *Corpus {
	t.Helper()
	c, err := Prepare(cfg, dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// recorder keeps events and cancels a run after a number of them.
type recorder struct {
	events []Event
	after  int
	cancel context.CancelFunc
}

func (r *recorder) Observe(e Event) error {
	r.events = append(r.events, e)
	if r.cancel != nil && len(r.events) == r.after {
		r.cancel()
	}
	return nil
}

// curve returns the reported events without times.
func (r *recorder) curve() []Event {
	var all []Event
	for _, e := range r.events {
		switch e := e.(type) {
		case Step:
			e.Speed, e.Seconds, e.CPU = 0, 0, 0
			all = append(all, e)
		case Evaluated:
			e.Seconds, e.CPU = 0, 0
			all = append(all, e)
		}
	}
	return all
}

// run trains from start to end.
func run(t testing.TB, cfg Config, corpus *Corpus, opt Options) (*LMTrainer, *recorder) {
	t.Helper()
	r := &recorder{}
	opt.Observer = r
	tr, err := NewLM(cfg, corpus, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tr.Close() })
	if err := tr.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	return tr, r
}

// weights copies a model's weights by name.
func weights(m *llm.Model[float32]) map[string][]float32 {
	all := map[string][]float32{}
	for _, w := range m.Tensors() {
		all[w.Name] = append([]float32(nil), w.Data...)
	}
	return all
}

func TestLearns(t *testing.T) {
	for _, name := range []string{"adamw", "lion", "muon", "schedule-free"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			cfg := smallConfig(t, dir)
			cfg.Stop.Steps, cfg.Eval.Windows, cfg.Optimizer.Name = 150, 0, name
			if name == "lion" {
				cfg.Optimizer.Rate = 2e-3
			}
			corpus := prepare(t, cfg, dir)
			base, err := dataset.NGrams(corpus.Train, corpus.Held, 300)
			if err != nil {
				t.Fatal(err)
			}
			_, r := run(t, cfg, corpus, Options{})
			var last Evaluated
			for _, e := range r.events {
				if v, ok := e.(Evaluated); ok {
					last = v
				}
			}
			// Only its beginning names the subject of a story: no trigram
			// predicts it.
			if last.Loss >= base.Bigram {
				t.Errorf("held-out loss %.3f after %d steps, bigram %.3f", last.Loss, last.Step, base.Bigram)
			}
			if last.Predictions != base.Predictions || last.Bytes == 0 || math.Abs(last.BitsPerByte-last.Loss*float64(last.Predictions)/math.Ln2/float64(last.Bytes)) > 1e-12 {
				t.Errorf("evaluation %+v against %d predictions", last.Evaluation, base.Predictions)
			}
		})
	}
}

// The loss curve and the weights are bit-identical with one and two threads and
// through interruptions, with bfloat16 products too.
func TestCurveBitwise(t *testing.T) {
	for _, name := range []string{"adamw", "lion", "muon", "schedule-free", string(BF16)} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			cfg := smallConfig(t, dir)
			if cfg.Optimizer.Name = name; name == string(BF16) {
				cfg.Optimizer.Name, cfg.Precision = "", BF16
			}
			cfg.Model.Tied, cfg.Model.QKNorm = name == "lion", name == "muon"
			corpus := prepare(t, cfg, dir)
			one, first := run(t, cfg, corpus, Options{Threads: 1})
			two, second := run(t, cfg, corpus, Options{Threads: 2})
			if d := cmp.Diff(first.curve(), second.curve()); d != "" {
				t.Errorf("two threads: %s", d)
			}
			if !cmp.Equal(weights(one.Model()), weights(two.Model())) {
				t.Error("two threads: weights differ")
			}

			save := filepath.Join(dir, "run")
			ctx, cancel := context.WithCancel(context.Background())
			r := &recorder{after: 2, cancel: cancel}
			tr, err := NewLM(cfg, corpus, Options{Dir: save, Observer: r, Threads: 1})
			if err != nil {
				t.Fatal(err)
			}
			curve, pieces := []Event(nil), 0
			for {
				err := tr.Run(ctx)
				cancel()
				curve = append(curve, r.curve()...)
				pieces++
				if err == nil {
					break
				}
				if !errors.Is(err, context.Canceled) {
					t.Fatal(err)
				}
				tr.Close()
				ctx, cancel = context.WithCancel(context.Background())
				r = &recorder{after: 3 + pieces, cancel: cancel}
				if tr, err = ResumeLM(filepath.Join(save, LastFile), corpus, Options{Dir: save, Observer: r, Threads: 1 + pieces%2}); err != nil {
					t.Fatal(err)
				}
			}
			defer tr.Close()
			if pieces < 3 {
				t.Fatalf("run of %d parts", pieces)
			}
			if d := cmp.Diff(first.curve(), curve); d != "" {
				t.Errorf("in %d parts: %s", pieces, d)
			}
			if !cmp.Equal(weights(one.Model()), weights(tr.Model())) {
				t.Error("resumed run: weights differ")
			}
		})
	}
}

// Products of bfloat16 change the weights and learn as well.
func TestPrecision(t *testing.T) {
	dir := t.TempDir()
	cfg := smallConfig(t, dir)
	cfg.Stop.Steps, cfg.Eval = 300, Eval{}
	cfg.Model.Layers, cfg.BatchSize, cfg.Accumulate = 2, 4, 1
	corpus := prepare(t, cfg, dir)
	loss := map[Precision]float64{}
	for _, name := range []Precision{FP32, BF16} {
		cfg.Precision = name
		_, r := run(t, cfg, corpus, Options{})
		for _, e := range r.events {
			if v, ok := e.(Evaluated); ok {
				loss[name] = v.Loss
			}
		}
	}
	t.Logf("held-out loss in nats after %d steps: %v", cfg.Stop.Steps, loss)
	if d := math.Abs(loss[BF16] - loss[FP32]); !(d <= 0.02) || d == 0 || loss[FP32] > 1 {
		t.Errorf("held-out losses %v", loss)
	}
}

// Gradients of n accumulated batches are those of one batch n times as large.
func TestAccumulation(t *testing.T) {
	dir := t.TempDir()
	cfg := smallConfig(t, dir)
	cfg.Stop.Steps = 6
	corpus := prepare(t, cfg, dir)
	split, _ := run(t, cfg, corpus, Options{})
	cfg.BatchSize, cfg.Accumulate = 6, 1
	full, _ := run(t, cfg, corpus, Options{})
	for name, a := range weights(split.Model()) {
		for i, v := range weights(full.Model())[name] {
			if math.Abs(float64(a[i]-v)) > 2e-3 {
				t.Fatalf("%s[%d]: %v accumulated, want %v", name, i, a[i], v)
			}
		}
	}
}

func TestLog(t *testing.T) {
	dir := t.TempDir()
	cfg := smallConfig(t, dir)
	corpus := prepare(t, cfg, dir)
	var b bytes.Buffer
	tr, err := NewLM(cfg, corpus, Options{Dir: filepath.Join(dir, "run"), Observer: Observers{Log{&b}, &recorder{}}})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	if err := tr.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for _, line := range strings.Split(strings.TrimSpace(b.String()), "\n") {
		var e struct {
			Event string  `json:"event"`
			Loss  float64 `json:"loss"`
			Norm  float64 `json:"grad_norm"`
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if e.Event == "step" && (e.Loss <= 0 || e.Norm <= 0) {
			t.Error(line)
		}
		counts[e.Event]++
	}
	want := map[string]int{"started": 1, "step": 9, "eval": 3, "saved": 5, "finished": 1}
	if d := cmp.Diff(want, counts); d != "" {
		t.Error(d)
	}
}

func TestStops(t *testing.T) {
	dir := t.TempDir()
	cfg := smallConfig(t, dir)
	corpus := prepare(t, cfg, dir)
	for reason, stop := range map[string]Stop{
		"tokens": {Tokens: 500, Steps: 1000}, "time": {Seconds: 0.05}, "loss": {Steps: 10000, Loss: 5}, "steps": {Steps: 3},
	} {
		cfg.Stop = stop
		_, r := run(t, cfg, corpus, Options{})
		if end := r.events[len(r.events)-1].(Finished); end.Reason != reason {
			t.Errorf("%+v ended by %s", stop, end.Reason)
		}
	}
}

// A run with a NaN loss fails without saving.
func TestDiverges(t *testing.T) {
	dir := t.TempDir()
	cfg := smallConfig(t, dir)
	corpus := prepare(t, cfg, dir)
	tr, err := NewLM(cfg, corpus, Options{Dir: filepath.Join(dir, "run")})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	tr.Model().Tensor("blk.1.ffn_up.weight").Data[3] = float32(math.Inf(1))
	if err := tr.Run(context.Background()); err == nil || !strings.Contains(err.Error(), "diverged") {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "run")); err == nil {
		t.Error("saved a checkpoint")
	}
}
