package train

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"

	"mm-abi.org/mm/core/pool"
	"mm-abi.org/mm/train/nn"
	"mm-abi.org/mm/train/optim"
)

// Optimizer selects and configures the optimizer.
type Optimizer struct {
	Name        string  `json:"name,omitempty"`         // adamw (default), lion, muon, schedule-free
	Rate        float64 `json:"lr,omitempty"`           // peak; 3e-3, 3e-4 for lion
	Beta1       float64 `json:"beta1,omitempty"`        // 0.9
	Beta2       float64 `json:"beta2,omitempty"`        // 0.95; lion 0.99, schedule-free 0.999
	Epsilon     float64 `json:"epsilon,omitempty"`      // 1e-8
	WeightDecay float64 `json:"weight_decay,omitempty"` // on matrices; 0
	// Rates multiply the rate of the tensors whose name matches a pattern of
	// path.Match; the longest matching pattern applies.
	Rates map[string]float64 `json:"rates,omitempty"`
	// For Muon: its rate relative to the rest (20/3), momentum (0.95),
	// iterations (5).
	MuonRatio    float64 `json:"muon_ratio,omitempty"`
	MuonMomentum float64 `json:"muon_momentum,omitempty"`
	MuonSteps    int     `json:"muon_steps,omitempty"`
}

func (o Optimizer) validate() error {
	var errs []error
	switch o.Name {
	case "adamw", "lion", "muon", "schedule-free":
	default:
		errs = append(errs, fmt.Errorf("unknown optimizer %q, want adamw, lion, muon or schedule-free", o.Name))
	}
	unit := func(v float64) bool { return v >= 0 && v < 1 }
	if !(o.Rate > 0 && o.Rate < 10) || !unit(o.Beta1) || !unit(o.Beta2) || !unit(o.Epsilon) || !unit(o.MuonMomentum) || !(o.WeightDecay >= 0 && o.WeightDecay <= 100) {
		errs = append(errs, fmt.Errorf("optimizer: out of range: lr %v, beta1 %v, beta2 %v, epsilon %v, weight_decay %v, muon_momentum %v", o.Rate, o.Beta1, o.Beta2, o.Epsilon, o.WeightDecay, o.MuonMomentum))
	}
	if !(o.MuonRatio >= 0 && o.MuonRatio < 1e4) || o.MuonSteps < 0 || o.MuonSteps > 50 {
		errs = append(errs, fmt.Errorf("optimizer: out of range: muon_ratio %v, muon_steps %d", o.MuonRatio, o.MuonSteps))
	}
	for _, p := range slices.Sorted(maps.Keys(o.Rates)) {
		if _, err := path.Match(p, ""); err != nil || !(o.Rates[p] > 0 && o.Rates[p] < 1e4) {
			errs = append(errs, fmt.Errorf("optimizer: rates: invalid pattern %q or factor %v", p, o.Rates[p]))
		}
	}
	return errors.Join(errs...)
}

// rate returns the factor of the longest pattern that matches name.
func (o Optimizer) rate(name string) float64 {
	best, factor := "", 1.0
	for _, p := range slices.Sorted(maps.Keys(o.Rates)) {
		if ok, _ := path.Match(p, name); ok && len(p) > len(best) {
			best, factor = p, o.Rates[p]
		}
	}
	return factor
}

// parameters lists the trained tensors for the optimizer.
func parameters(tensors []*nn.Tensor[float32], o Optimizer) ([]optim.Param, error) {
	for _, p := range slices.Sorted(maps.Keys(o.Rates)) {
		if !slices.ContainsFunc(tensors, func(t *nn.Tensor[float32]) bool { ok, _ := path.Match(p, t.Name); return ok }) {
			return nil, At("/optimizer/rates", fmt.Errorf("optimizer: rates: no tensor matches %q", p))
		}
	}
	var all []optim.Param
	for _, w := range tensors {
		if w.Grad != nil {
			all = append(all, optim.Param{Name: w.Name, Shape: w.Shape, Data: w.Data, Grad: w.Grad,
				Decay: w.Matrix(), Hidden: w.Matrix() && w.Layer >= 0, Rate: o.rate(w.Name)})
		}
	}
	return all, nil
}

func newMover(o Optimizer, params []optim.Param, p *pool.Pool) mover {
	adam := optim.AdamWOptions{Beta1: o.Beta1, Beta2: o.Beta2, Epsilon: o.Epsilon, Decay: o.WeightDecay}
	switch o.Name {
	case "lion":
		return optim.NewLion(params, optim.LionOptions{Beta1: o.Beta1, Beta2: o.Beta2, Decay: o.WeightDecay}, p)
	case "muon":
		return optim.NewMuon(params, optim.MuonOptions{Momentum: o.MuonMomentum, Ratio: o.MuonRatio, Steps: o.MuonSteps, Decay: o.WeightDecay, Adam: adam}, p)
	case "schedule-free":
		return optim.NewScheduleFree(params, adam, p)
	}
	return optim.NewAdamW(params, adam, p)
}
