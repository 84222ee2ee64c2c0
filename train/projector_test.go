package train

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/train/llm"
	"mm-abi.org/mm/train/nn"
	"mm-abi.org/mm/train/optim"
)

// aligning is stage 0 of a multimodal core (alignment): every tensor of the
// core is frozen, and a projector learns to convey the output of an encoder.
// Here that output is a set of four random features per class, and the core
// predicts the class after the projector's positions.
type aligning struct {
	core *llm.Model[float32]
	pass *llm.Pass[float32]
	pool *pool.Pool

	params    *nn.Params[float32]
	projector *nn.Linear[float32]
	product   nn.Product[float32] // [rows, features] → [rows, C]
	gradients *nn.Gradients[float32]
	grads     []float32 // [rows·C], dense

	batches []llm.Batch[float32]
	next    int // batches drawn: the position in the data
	fresh   bool
}

const (
	alignRows     = 6 // sequences in a batch
	alignLen      = 3 // positions: feature, feature, class
	alignFeatures = 4
	alignClasses  = 5
)

func newAligning(t testing.TB, core *llm.Model[float32], workers *pool.Pool, next int) *aligning {
	t.Helper()
	core.Freeze(func(string) bool { return true })
	a := &aligning{core: core, pool: workers, next: next, pass: core.NewPass(workers, alignRows, alignLen)}
	c, n := core.Config.Dim, 2*alignRows
	a.params = nn.NewParams[float32]([]nn.Spec{{Name: "projector.weight", Layer: -1, Shape: []int{c, alignFeatures}}})
	nn.FillNormal(a.params.Tensor("projector.weight").Data, nn.NewRandom(7), 0.02)
	a.projector = a.params.Linear("projector.weight")
	a.product = nn.NewProduct(a.projector, nn.NewMatrix[float32](n, alignFeatures), nn.NewMatrix[float32](n, c), nn.NewMatrix[float32](n, c))
	a.gradients = nn.NewGradients(&a.product)
	a.grads = make([]float32, n*c)
	return a
}

func (a *aligning) Tensors() []*nn.Tensor[float32] {
	return append(a.core.Tensors(), a.params.Tensors()...)
}

func (a *aligning) Size() Size {
	return Size{FLOPs: a.core.Config.FLOPs(alignLen), Batch: alignRows * alignLen, Train: 1000, Held: alignRows}
}

func (a *aligning) Batches(k int) (int, error) {
	a.batches = a.batches[:0]
	for range k {
		a.next++
		a.batches = append(a.batches, a.draw(uint64(a.next)))
	}
	return k * alignRows, nil
}

// draw draws a batch whose first targets are the classes. The features are
// stored in Embeds until project replaces them with embeddings.
func (a *aligning) draw(seed uint64) llm.Batch[float32] {
	r := nn.NewRandom(seed)
	b := llm.Batch[float32]{Tokens: make([]int32, alignRows*alignLen), Targets: make([]int32, alignRows*alignLen)}
	for s := range alignRows {
		class := int32(r.Uniform() * alignClasses)
		for i := range alignLen {
			b.Tokens[s*alignLen+i], b.Targets[s*alignLen+i] = 0, -1
		}
		b.Targets[s*alignLen+1] = 1 + class
		b.Rows = append(b.Rows, int32(s*alignLen), int32(s*alignLen+1))
		for range 2 {
			look := nn.NewRandom(1000 + uint64(class))
			for range alignFeatures {
				b.Embeds = append(b.Embeds, float32(look.Normal()+0.1*r.Normal()))
			}
		}
	}
	return b
}

// project replaces b's features with embeddings.
func (a *aligning) project(b llm.Batch[float32]) llm.Batch[float32] {
	c := a.core.Config.Dim
	for i := range b.Rows {
		copy(a.product.X.Row(i), b.Embeds[i*alignFeatures:(i+1)*alignFeatures])
	}
	a.product.Forward(0, len(b.Rows), false)
	b.Embeds = make([]float32, len(b.Rows)*c)
	for i := range b.Rows {
		copy(b.Embeds[i*c:], a.product.Y.Row(i))
	}
	return b
}

func (a *aligning) Pass(i int, scale float64, add bool) (float64, error) {
	b := a.project(a.batches[i])
	b.EmbedGrads = a.grads
	loss, err := a.pass.Train(b, scale, false)
	if err != nil {
		return 0, err
	}
	c := a.core.Config.Dim
	for r := range b.Rows {
		copy(a.product.DY.Row(r), a.grads[r*c:(r+1)*c])
	}
	a.gradients.Compute(nn.NewGradientScratch[float32](), 0, a.gradients.Len(), add)
	return loss, nil
}

func (a *aligning) Refresh() {
	a.core.Refresh(a.pool)
	a.projector.Pack(!a.fresh)
	a.fresh = true
}

func (a *aligning) Evaluate() (Evaluation, error) {
	loss, err := a.pass.Loss(a.project(a.draw(1 << 40)))
	return Evaluation{Loss: loss / alignRows, Predictions: alignRows}, err
}

func (a *aligning) State() (State, error) {
	return State{Kind: "align", Header: map[string]int{"next": a.next}}, nil
}

// frozenCore is a small untrained model.
func frozenCore(t testing.TB) *llm.Model[float32] {
	t.Helper()
	m, err := llm.New[float32](llm.Config{Vocab: 16, Dim: 24, Layers: 2, Heads: 2, Context: 8})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Init(llm.Init{Seed: 3, Residual: "plain"}); err != nil {
		t.Fatal(err)
	}
	return m
}

func digests(m *llm.Model[float32]) map[string]string {
	all := map[string]string{}
	for _, w := range m.Tensors() {
		all[w.Name] = fmt.Sprintf("%x", tensorDigest(w))
	}
	return all
}

// A projector learns before a frozen core. Interrupted and resumed on any
// number of threads, the result is bit-identical. Its checkpoint is not a
// language model's.
func TestProjectorBeforeFrozenCore(t *testing.T) {
	dir := t.TempDir()
	how := Run{Name: "align", Accumulate: 2, Optimizer: Optimizer{Rate: 0.02}, Schedule: optim.Schedule{Kind: "constant"}, Stop: Stop{Steps: 60}, LogEvery: 20, EvalEvery: 20, SaveEvery: 20, Seal: 5}
	core := frozenCore(t)
	before := digests(core)
	r := &recorder{}
	workers := pool.New(1)
	task := newAligning(t, core, workers, 0)
	tr, err := New(how, task, workers, Options{Dir: dir, Observer: r})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	if err := tr.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	var losses []float64
	for _, e := range r.events {
		if e, ok := e.(Evaluated); ok {
			losses = append(losses, e.Loss)
		}
	}
	if n := len(losses); n != 3 || losses[2] > math.Log(alignClasses)/4 || losses[0] < losses[2] {
		t.Errorf("held-out losses %v: projector did not learn", losses)
	}
	if d := cmp.Diff(before, digests(core)); d != "" {
		t.Errorf("the core moved: %s", d)
	}
	s := r.events[0].(Started)
	if s.Frozen != len(core.Tensors()) || s.Trainable != 24*alignFeatures {
		t.Errorf("%+v", s)
	}

	// In two parts, on two threads.
	half := filepath.Join(dir, "half")
	how2 := how
	how2.Stop.Steps = 40
	workers2 := pool.New(2)
	first, err := New(how2, newAligning(t, frozenCore(t), workers2, 0), workers2, Options{Dir: half})
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	first.Close()
	c, err := Open(filepath.Join(half, LastFile))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var at struct{ Next int }
	if err := json.Unmarshal(c.Header.Task, &at); err != nil || at.Next != 80 || c.Header.Kind != "align" {
		t.Fatalf("%s of kind %q: %v", c.Header.Task, c.Header.Kind, err)
	}
	workers3 := pool.New(2)
	again := newAligning(t, frozenCore(t), workers3, at.Next)
	rest, err := Resume(c, how, again, workers3, Options{Dir: half})
	if err != nil {
		t.Fatal(err)
	}
	defer rest.Close()
	if err := rest.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	if !cmp.Equal(task.params.Tensor("projector.weight").Data, again.params.Tensor("projector.weight").Data) {
		t.Error("resumed projector differs")
	}
	if _, err := OpenLM(filepath.Join(half, LastFile)); err == nil || !strings.Contains(err.Error(), `want "lm"`) {
		t.Errorf("opened a projector's checkpoint as a language model: %v", err)
	}
}

// The gradient of the projector through the frozen core agrees with central
// differences of the same float32 pass, with a coarse tolerance.
func TestProjectorGradient(t *testing.T) {
	workers := pool.New(1)
	defer workers.Close()
	a := newAligning(t, frozenCore(t), workers, 0)
	w := a.params.Tensor("projector.weight")
	nn.FillNormal(w.Data, nn.NewRandom(5), 0.5)
	if _, err := a.Batches(1); err != nil {
		t.Fatal(err)
	}
	loss := func() float64 {
		a.fresh = false
		a.Refresh()
		v, err := a.pass.Loss(a.project(a.batches[0]))
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	loss()
	if _, err := a.Pass(0, 1, false); err != nil {
		t.Fatal(err)
	}
	got := bytes.Clone(floatBytes(w.Grad))
	grad := make([]float32, len(w.Grad))
	setFloats(grad, got)
	const h = 1e-2
	var diff, norm float64
	for i := range w.Data {
		old := w.Data[i]
		w.Data[i] = old + h
		up := loss()
		w.Data[i] = old - h
		down := loss()
		w.Data[i] = old
		d := (up - down) / (2 * h)
		diff += (d - float64(grad[i])) * (d - float64(grad[i]))
		norm += d * d
	}
	if e := math.Sqrt(diff / norm); !(e < 0.01) {
		t.Errorf("relative error %.3g", e)
	}
}

// A run without trainable tensors is refused, and so is a checkpoint of another
// task.
func TestRunRefused(t *testing.T) {
	dir := t.TempDir()
	workers := pool.New(1)
	a := newAligning(t, frozenCore(t), workers, 0)
	a.params.Freeze(func(string) bool { return true })
	if _, err := New(Run{Stop: Stop{Steps: 1}}, a, workers, Options{}); err == nil || !strings.Contains(err.Error(), "frozen") {
		t.Errorf("all frozen: %v", err)
	}
	cfg := smallConfig(t, dir)
	cfg.Stop.Steps = 1
	corpus := prepare(t, cfg, dir)
	run(t, cfg, corpus, Options{Dir: dir})
	c, err := Open(filepath.Join(dir, LastFile))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	workers = pool.New(1)
	if _, err := Resume(c, Run{Stop: Stop{Steps: 1}}, newAligning(t, frozenCore(t), workers, 0), workers, Options{}); err == nil || !strings.Contains(err.Error(), `kind "lm"`) {
		t.Errorf("a language model's checkpoint: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "old"), rewrite(t, read(t, filepath.Join(dir, LastFile)), func(h *Header, _ *LMHeader) { h.Version = 1 }, nil), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(filepath.Join(dir, "old")); err == nil || !strings.Contains(err.Error(), "version 1, want 2") {
		t.Errorf("an old layout: %v", err)
	}
}

func read(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
