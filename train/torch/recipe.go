package torch

import (
	"errors"
	"fmt"
	"slices"

	"mm-abi.org/mm/train"
	"mm-abi.org/mm/train/llm"
)

// Supported reports all that project/train.py does not do.
func Supported(cfg train.Config) error {
	cfg = cfg.WithDefaults()
	var errs []error
	refuse := func(path string, bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, train.At(path, fmt.Errorf(format, args...)))
		}
	}
	refuse("/model/mixer", cfg.Model.Mixer != llm.Attention, "mixer: got %q, want %q: the project has no other", cfg.Model.Mixer, llm.Attention)
	refuse("/stop", cfg.Stop.Steps == 0 && cfg.Stop.Tokens == 0, "stop: got seconds only, want steps or tokens: time ends elsewhere on another machine")
	refuse("/stop/loss", cfg.Stop.Loss > 0, "stop: got loss %v: the project ends at steps or tokens only", cfg.Stop.Loss)
	return errors.Join(errs...)
}

// recipe is the content of run.json.
type recipe struct {
	Format      int         `json:"format"`
	Name        string      `json:"name"`
	Model       model       `json:"model"`
	LoRA        *lora       `json:"lora"`
	Parameters  []parameter `json:"parameters"`
	BatchSize   int         `json:"batch_size"`
	SeqLen      int         `json:"seq_len"`
	Accumulate  int         `json:"accumulate"`
	Precision   string      `json:"precision"`
	Optimizer   optimizer   `json:"optimizer"`
	Schedule    schedule    `json:"schedule"`
	Clip        float64     `json:"clip"`
	Steps       int         `json:"steps"` // until the first limit of Stop
	Stop        stop        `json:"stop"`
	LogEvery    int         `json:"log_every"`
	SaveEvery   int         `json:"save_every"`
	EvalWindows int         `json:"eval_windows"`
	HeldOut     bool        `json:"held_out"` // data/held_*.npy exist
	Text        string      `json:"text"`     // digest of the documents
	Vocabulary  string      `json:"vocabulary"`
}

// model is [llm.Config] without omitted fields.
type model struct {
	Vocab      int     `json:"vocab_size"`
	Dim        int     `json:"dim"`
	Layers     int     `json:"layers"`
	Heads      int     `json:"heads"`
	KVHeads    int     `json:"kv_heads"`
	HeadDim    int     `json:"head_dim"`
	Hidden     int     `json:"hidden"`
	Context    int     `json:"context"`
	Activation string  `json:"activation"`
	Rope       string  `json:"rope"`
	RopeBase   float64 `json:"rope_base"`
	NormEps    float64 `json:"norm_eps"`
	QKNorm     bool    `json:"qk_norm"`
	Tied       bool    `json:"tied"`
	EmbedNorm  bool    `json:"embed_norm"`
}

type lora struct {
	Rank    int      `json:"rank"`
	Scale   float64  `json:"scale"` // alpha / rank
	Targets []string `json:"targets"`
}

// parameter is a tensor of the model.
type parameter struct {
	Name   string  `json:"name"`
	Shape  []int   `json:"shape"`
	Frozen bool    `json:"frozen"`
	Decay  bool    `json:"decay"`
	Hidden bool    `json:"hidden"` // Muon orthogonalizes it
	Rate   float64 `json:"rate"`   // factor of the learning rate
}

type optimizer struct {
	Name         string  `json:"name"`
	Rate         float64 `json:"lr"`
	Beta1        float64 `json:"beta1"`
	Beta2        float64 `json:"beta2"`
	Epsilon      float64 `json:"epsilon"`
	WeightDecay  float64 `json:"weight_decay"`
	MuonRatio    float64 `json:"muon_ratio"`
	MuonMomentum float64 `json:"muon_momentum"`
	MuonSteps    int     `json:"muon_steps"`
}

type schedule struct {
	Kind   string  `json:"kind"`
	Warmup int     `json:"warmup"`
	Floor  float64 `json:"floor"`
	Stable float64 `json:"stable"`
}

type stop struct {
	Steps  int `json:"steps"`
	Tokens int `json:"tokens"`
}

// describe returns the recipe of a run with every default filled in.
func describe(start *train.Start, corpus *train.Corpus) recipe {
	cfg, c := start.Config, start.Model.Config
	r := recipe{
		Format: 1, Name: cfg.Name, BatchSize: cfg.BatchSize, SeqLen: cfg.SeqLen, Accumulate: cfg.Accumulate, Precision: "fp32", Clip: cfg.Clip,
		Steps: start.Steps, Stop: stop{cfg.Stop.Steps, cfg.Stop.Tokens}, LogEvery: cfg.LogEvery, SaveEvery: cfg.SaveEvery, EvalWindows: cfg.Eval.Windows,
		HeldOut: corpus.Held != nil, Text: corpus.Text, Vocabulary: corpus.Vocabulary,
		Model: model{c.Vocab, c.Dim, c.Layers, c.Heads, c.KVHeads, c.HeadDim, c.Hidden, c.Context, string(c.Activation), string(c.Rope),
			c.RopeBase, c.NormEps, c.QKNorm, c.Tied, c.EmbedNorm},
		Optimizer: settle(cfg.Optimizer),
		Schedule:  schedule{cfg.Schedule.Kind, cfg.Schedule.Warmup, cfg.Schedule.Floor, cfg.Schedule.Stable},
	}
	if cfg.Precision != "" {
		r.Precision = string(cfg.Precision)
	}
	if r.Schedule.Kind == "" {
		r.Schedule.Kind = "wsd"
	}
	train.SetDefault(&r.Schedule.Stable, 0.6)
	if l := cfg.LoRA; l != nil {
		alpha := l.Alpha
		train.SetDefault(&alpha, float64(l.Rank))
		r.LoRA = &lora{l.Rank, alpha / float64(l.Rank), append([]string{}, l.Targets...)}
	}
	for _, t := range start.Model.Tensors() {
		r.Parameters = append(r.Parameters, parameter{Name: t.Name, Shape: slices.Clone(t.Shape), Frozen: true})
	}
	for _, p := range start.Parameters {
		i := slices.IndexFunc(r.Parameters, func(q parameter) bool { return q.Name == p.Name })
		r.Parameters[i] = parameter{Name: p.Name, Shape: p.Shape, Decay: p.Decay, Hidden: p.Hidden, Rate: p.Rate}
	}
	return r
}

// settle fills in the defaults of train/optim.
func settle(o train.Optimizer) optimizer {
	s := optimizer{o.Name, o.Rate, o.Beta1, o.Beta2, o.Epsilon, o.WeightDecay, o.MuonRatio, o.MuonMomentum, o.MuonSteps}
	beta2 := 0.95
	switch s.Name {
	case "lion":
		beta2 = 0.99
	case "schedule-free":
		beta2 = 0.999
	}
	train.SetDefault(&s.Beta1, 0.9)
	train.SetDefault(&s.Beta2, beta2)
	train.SetDefault(&s.Epsilon, 1e-8)
	train.SetDefault(&s.MuonRatio, 20./3)
	train.SetDefault(&s.MuonMomentum, 0.95)
	train.SetDefault(&s.MuonSteps, 5)
	return s
}
